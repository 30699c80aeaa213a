"""Read grants, signed as the controller signs them (dmcr-registry.md, "Read grant")."""

import base64
import hashlib
import hmac
import json
import time

SALT = "a-salt-of-the-tests"


def _b64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def grant(digest, repository="team/model", salt=SALT, **more):
    """A token. `more`: claims that replace the usual ones."""
    now = int(time.time())
    claims = {"v": 1, "jti": "grant-1", "purpose": "shared-pvc", "repository": repository, "digest": digest, "expectedBytes": 1,
              "iat": now, "exp": now + 600, "subject": {"namespace": "apps", "name": "job-1"}, **more}
    key = hmac.new(salt.encode(), b"ai-models/read-grant/v1", hashlib.sha256).digest()
    body = _b64(json.dumps(claims).encode())
    return f"{body}.{_b64(hmac.new(key, body.encode(), hashlib.sha256).digest())}"
