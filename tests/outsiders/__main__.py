"""python -m tests.outsiders: installs the programs of others that its tests run."""

from tests.outsiders.tools import install

install()
