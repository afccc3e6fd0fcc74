"""
Checking an answer
==================

Is each sentence of an answer backed by its sources? ``miv.check`` names the sentence of a source that supports or
contradicts it, and says so if there is none.
"""

# sphinx_gallery_thumbnail_path = 'images/page-checked.png'

# %%
# Two sources, and an answer with a true sentence, a changed number, a negation, and a sentence about something else.
import miv

sources = {
    "curie.md": "Marie Curie was born on 7 November 1867 in Warsaw. She moved to Paris in 1891.",
    "polonium.txt": "Polonium is a rare metal. It was discovered by Marie and Pierre Curie in July 1898.",
}
answer = (
    "Marie Curie was born in Warsaw. She came to Paris in 1819. Polonium was not discovered by Marie and Pierre Curie. "
    "Bees make honey from nectar."
)
checked = miv.check(answer, sources)
checked

# %%
# The same as plain values.
for sentence in checked.sentences:
    print(f"{sentence.outcome:<20} {sentence.text}")
