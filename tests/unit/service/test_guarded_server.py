"""GuardedServer stands on private parts of grpcio: one without them is refused clearly."""

from types import SimpleNamespace

import pytest
from grpc._cython import cygrpc

from services.service.guarded_server import require_parts


def test_this_grpcio_has_all_parts():
    require_parts(cygrpc)


@pytest.mark.parametrize("part", ["_MethodResolver", "AioServer", "AioServer._request_call"])
def test_a_grpcio_without_a_part_is_named(part: str):
    owner, _, name = part.rpartition(".")
    parts = {each: getattr(cygrpc, each) for each in dir(cygrpc) if each != part}
    if owner:
        server = cygrpc.AioServer
        parts[owner] = SimpleNamespace(**{each: getattr(server, each) for each in dir(server) if each != name})
    with pytest.raises(ImportError, match=rf"grpcio .* has no cygrpc\.{part}[._a-z]*, .* that constraints.txt names"):
        require_parts(SimpleNamespace(**parts))
