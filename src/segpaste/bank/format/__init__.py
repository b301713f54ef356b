"""Bank formats: one protocol, one writer, and a file for each format, all of them listed here."""

from segpaste.bank.format.lmdb import LMDBBank, LMDBWriter
from segpaste.bank.format.memmap import MemmapBank, MemmapWriter
from segpaste.bank.format.shards import WebDatasetBank, WebDatasetWriter
from segpaste.bank.format.stored import StoredBank
from segpaste.bank.format.writer import FolderWriter
from segpaste.bank.schema.meta import Format

BANKS: dict[Format, type[StoredBank]] = {bank.format: bank for bank in (MemmapBank, LMDBBank, WebDatasetBank)}
WRITERS: dict[Format, type[FolderWriter]] = {w.format: w for w in (MemmapWriter, LMDBWriter, WebDatasetWriter)}
