"""Availability and Reload: what is reported of a service that does not serve, and what a reload does."""

from services.service.life.availability import Availability
from services.service.life.reload import Reload


async def test_each_reason_not_to_serve_goes_by_itself():
    told: list[str] = []

    async def tell(reason: str) -> None:
        told.append(reason)

    availability = Availability(tell)
    await availability.obstruct("drained")
    await availability.obstruct("late")
    await availability.clear("drained")
    await availability.clear("late")
    await availability.clear("late")
    assert told == ["drained", "late", "late", "", ""]
    assert availability.reason == ""


def test_a_failed_reload_keeps_no_other_from_being_read(caplog):
    reload, read = Reload(), []
    reload.add("tokens", lambda: read.append("tokens"))
    reload.add("certificates", lambda: 1 // 0)
    reload.add("log level", lambda: read.append("log level"))
    assert reload() == ["certificates: integer division or modulo by zero"]
    assert read == ["tokens", "log level"]
    assert "certificates cannot be reloaded" in caplog.text
