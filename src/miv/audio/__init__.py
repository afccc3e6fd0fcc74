"""Recordings as vectors of the voice: a bag of windows, or one vector as a query."""

from miv.audio.embedding_files import embed_recordings
from miv.audio.speaker_encoder import SpeakerEncoder, SpokenWindows
from miv.audio.speaker_weights import write_speaker_weights
from miv.audio.wav_files import read_wav

__all__ = ["SpeakerEncoder", "SpokenWindows", "embed_recordings", "read_wav", "write_speaker_weights"]
