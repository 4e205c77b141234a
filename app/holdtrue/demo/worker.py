"""a worker process: takes one job, works on it, and may be killed meanwhile"""

from __future__ import annotations

import os
import sys
import time

from holdtrue.demo.schema import open_engine
from holdtrue.demo.service import finish_job, take_job


def main(url_variable: str, seconds: str) -> int:
    """Take one job of the database that the environment variable names, and work on it for some seconds."""
    engine = open_engine(os.environ[url_variable])
    job_id = take_job(engine, f"worker-{os.getpid()}")
    if job_id is None:
        return 0
    print(job_id, flush=True)
    time.sleep(float(seconds))
    finish_job(engine, job_id)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
