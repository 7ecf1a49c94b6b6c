from ._extract import extract as extract
