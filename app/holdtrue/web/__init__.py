"""HTTP: api (JSON), pages (HTML), probes (/metrics, /healthz, /readyz), templates/, static/"""

from holdtrue.web.app import create_app
from holdtrue.bootstrap.faces import Asked, ReloadResult, WebService

__all__ = ["Asked", "ReloadResult", "WebService", "create_app"]
