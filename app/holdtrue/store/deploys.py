"""the deploys that pipelines told of: bounded, and pruned like exact counts"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Row, delete, select

from holdtrue.errors import Refused
from holdtrue.model import Deploy, Retention, Window, by_whom, show_moment
from holdtrue.model.deploys import LOOK_BACK, NEAR, NearDeploy, near, problem_of_deploy
from holdtrue.model.paging import Place
from holdtrue.store.audit import add_line
from holdtrue.store.engine import StoreEngine
from holdtrue.store.tables import deploys

MOST = 10_000
"""How many are kept, the latest ones: a pipeline that runs wild fills no disk."""


class Deploys:
    """What went out, and when."""

    def __init__(self, engine: StoreEngine, most: int = MOST) -> None:
        """Work on this store."""
        self._engine = engine
        self._most = most

    def add(self, service: str, version: str, *, by: str, who: str, at: datetime | None = None) -> Deploy:
        """Keep a deploy at ``at`` (now if not given), audited; the same one told twice is one.

        ``by`` is whom people see, ``who`` the identity that the audit line names.

        Raises:
            Refused: it names no service or version, a text is too long, or the moment is none that can be kept.
        """
        service, version = " ".join(service.split()), " ".join(version.split())
        with self._engine.write() as connection:
            now = self._engine.now(connection)
            moment = at or now
            problem = problem_of_deploy(service, version, moment, now, Retention().exact_counts)
            if problem:
                raise Refused(
                    problem, remedy='write {"service": "payments", "version": "1.4.2"}, with "at" as ISO 8601'
                )
            new = {"service": service, "version": version, "at": moment, "by": by, "recorded_at": now}
            # Two may tell of it at once, and neither sees what the other has not committed: the insert waits for it.
            added = self._engine.upsert(deploys).values(new).on_conflict_do_nothing().returning(deploys.c.id)
            same = (deploys.c.service == service) & (deploys.c.version == version) & (deploys.c.at == moment)
            while (number := connection.execute(added).scalar_one_or_none()) is None:
                told = connection.execute(select(deploys).where(same)).one_or_none()
                if told is not None:
                    return _deploy_of(told)
                # It has been forgotten between the two: then it is told of anew.
            surplus = select(deploys.c.id).order_by(deploys.c.at.desc(), deploys.c.id.desc()).offset(self._most)
            past = connection.execute(surplus.limit(1000)).scalars().all()
            if past:
                connection.execute(delete(deploys).where(deploys.c.id.in_(past)))
            subject = f"{service} {version}"
            add_line(connection, now, who, "deploy", subject=subject, detail=f"at {show_moment(moment)}, {by_whom(by)}")
            return Deploy(service, version, moment, by, now, number)

    def list(
        self,
        *,
        service: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        told_by: datetime | None = None,
        before: Place | None = None,
        limit: int = 100,
    ) -> tuple[Deploy, ...]:
        """Deploys, the latest first; ``until`` is included, ``before`` is not. ``told_by`` leaves out those told of later."""
        query = select(deploys).order_by(deploys.c.at.desc(), deploys.c.id.desc()).limit(limit)
        if service is not None:
            query = query.where(deploys.c.service == service)
        if since is not None:
            query = query.where(deploys.c.at >= since)
        if until is not None:
            query = query.where(deploys.c.at <= until)
        if told_by is not None:
            query = query.where(deploys.c.recorded_at <= told_by)
        if before is not None:
            same = (deploys.c.at == before.at) & (deploys.c.id < before.number)
            query = query.where((deploys.c.at < before.at) | same)
        with self._engine.read() as connection:
            return tuple(_deploy_of(row) for row in connection.execute(query))

    def beside(self, window: Window, told_by: datetime | None = None) -> tuple[NearDeploy, ...] | None:
        """Those beside a window, the latest first; None where nobody ever told of one, which is not the same as none.

        With ``told_by`` it is what was known at that moment.
        """
        start = (window.opened or window.closed) - LOOK_BACK
        found = self.list(since=start, until=window.closed, told_by=told_by, limit=NEAR)
        if not found and not self.list(told_by=told_by, limit=1):
            return None
        return near(found, window)


def _deploy_of(row: Row[Any]) -> Deploy:
    return Deploy(row.service, row.version, row.at, row.by, row.recorded_at, row.id)
