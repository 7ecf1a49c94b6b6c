import pytest
from emulator import Emulator


@pytest.fixture(scope="session")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Emulator:
    """One for all files, since it takes seconds to compile."""
    return Emulator(tmp_path_factory.mktemp("emulator"))
