"""Certificates for services of this machine, made by openssl."""

import os
import subprocess


class Authority:
    """Signs certificates for localhost, for servers and clients alike."""

    def __init__(self, folder, name):
        self.folder = folder
        self.ca = os.path.join(folder, name + ".pem")
        self._key = os.path.join(folder, name + ".key")
        self._make(name, self.ca, self._key)

    def issue(self, name):
        """The paths of a certificate and its key; a second time, the same."""
        cert = os.path.join(self.folder, name + ".pem")
        key = os.path.join(self.folder, name + ".key")
        self._make(name, cert, key, "-CA", self.ca, "-CAkey", self._key,
                   "-addext", "basicConstraints=critical,CA:FALSE",
                   "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1")
        return cert, key

    @staticmethod
    def _make(name, cert, key, *signed):
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
             "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj",
             "/CN=" + name, "-keyout", key, "-out", cert, *signed],
            check=True, capture_output=True)
