"""HTTP: api (JSON), pages (HTML), probes (/metrics, /healthz, /readyz), templates/, static/"""

from holdtrue.bootstrap.faces import Asked, ReloadResult, WebService
from holdtrue.web.app import create_app

__all__ = ["Asked", "ReloadResult", "WebService", "create_app"]
