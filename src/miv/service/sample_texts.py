"""Short texts about an invented town, written for the samples."""

SOURCES = [
    {
        "name": "harbour.txt",
        "text": "Aldmere is a small town on the north coast. Its harbour was built between 1838 and 1842. The "
        "lighthouse at the end of the pier is 31 metres high. It was switched to electric light in 1926. Most of the "
        "fishing boats left after the railway closed in 1964.",
    },
    {
        "name": "festival.txt",
        "text": "The herring festival of Aldmere takes place on the first weekend of September. It began in 1951 as a "
        "market for fishermen. About eight thousand visitors came last year. The town hall sells tickets from June. "
        "The orchestra of the school plays on both evenings.",
    },
]
ANSWER = (
    "The harbour of Aldmere was built between 1838 and 1842. Its lighthouse is 31 metres high. The herring festival "
    "has been held since 1951. The castle above the town belongs to a duke."
)
SENTENCES = [part.strip(" .") + "." for one in SOURCES for part in one["text"].split(". ")]
CLAIM = "The lighthouse of Aldmere got electric light in the 1920s."
OTHER_CLAIM = "The castle of Aldmere belongs to a duke."
