"""the deploys that pipelines told of: bounded, and pruned like exact counts"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Row, delete, insert, select

from holdtrue.errors import Refused
from holdtrue.model import Deploy, Retention, Window, show_moment
from holdtrue.model.deploys import LOOK_BACK, NEAR, NearDeploy, near, problem_of_deploy
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
            same = (deploys.c.service == service) & (deploys.c.version == version) & (deploys.c.at == moment)
            found = connection.execute(select(deploys).where(same)).one_or_none()
            if found is not None:
                return _deploy_of(found)
            added = insert(deploys).values(service=service, version=version, at=moment, by=by, recorded_at=now)
            number = connection.execute(added.returning(deploys.c.id)).scalar_one()
            surplus = select(deploys.c.id).order_by(deploys.c.at.desc(), deploys.c.id.desc()).offset(self._most)
            past = connection.execute(surplus.limit(1000)).scalars().all()
            if past:
                connection.execute(delete(deploys).where(deploys.c.id.in_(past)))
            subject = f"{service} {version}"
            add_line(connection, now, who, "deploy", subject=subject, detail=f"at {show_moment(moment)}, by {by}")
            return Deploy(service, version, moment, by, now, number)

    def list(
        self,
        *,
        service: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        before: datetime | None = None,
        limit: int = 100,
    ) -> tuple[Deploy, ...]:
        """Deploys, the latest first; ``until`` is included, ``before`` is not."""
        query = select(deploys).order_by(deploys.c.at.desc(), deploys.c.id.desc()).limit(limit)
        if service is not None:
            query = query.where(deploys.c.service == service)
        if since is not None:
            query = query.where(deploys.c.at >= since)
        if until is not None:
            query = query.where(deploys.c.at <= until)
        if before is not None:
            query = query.where(deploys.c.at < before)
        with self._engine.read() as connection:
            return tuple(_deploy_of(row) for row in connection.execute(query))

    def beside(self, window: Window) -> tuple[NearDeploy, ...] | None:
        """Those beside a window, the latest first; None where nobody ever told of one, which is not the same as none."""
        found = self.list(since=(window.opened or window.closed) - LOOK_BACK, until=window.closed, limit=NEAR)
        if not found and not self.list(limit=1):
            return None
        return near(found, window)


def _deploy_of(row: Row[Any]) -> Deploy:
    return Deploy(row.service, row.version, row.at, row.by, row.recorded_at, row.id)
