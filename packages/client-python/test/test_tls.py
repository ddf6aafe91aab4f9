import asyncio
import datetime
import ipaddress
import os
import ssl
import tempfile
import unittest
from pathlib import Path
from unittest import mock

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from fake import Answers, ok
from user_group_service import (
    AsyncClient,
    Client,
    Code,
    ConnectError,
    GetUserGroupRequest,
    GetUserGroupResponse,
    _calls,
)

GROUP = GetUserGroupRequest(user_group_id="acme")
OF_GET = ok(GetUserGroupResponse(new_user_group=True))


def certificate(name, path, issuer=None):
    """Writes a certificate and its key to a file. If an issuer is given, the issuer signs the certificate. If no issuer
    is given, the certificate is a self-signed CA certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    issuer_name, issuer_key = issuer or (subject, key)
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder(issuer_name, subject, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.KeyUsage(True, False, False, False, False, issuer is None, False, False, False), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False)
        .sign(issuer_key, hashes.SHA256())
    )
    encoded = made.public_bytes(serialization.Encoding.PEM) + key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path.write_bytes(encoded)
    return subject, key


class Tls(unittest.TestCase):
    def setUp(self):
        folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.ca, server, client = (folder / f"{name}.pem" for name in ("ca", "server", "client"))
        issuer = certificate("an authority", self.ca)
        certificate("a server", server, issuer)
        certificate("a client", client, issuer)
        self.of_client = ssl.create_default_context(cafile=self.ca)
        self.of_client.load_cert_chain(client)
        self.of_server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=self.ca)
        self.of_server.load_cert_chain(server)

    def call(self, server, **options):
        with Client(server.url, "t0ken-of-the-tests", timeout_ms=5000, **options) as client:
            return client.user_groups.get_user_group(GROUP).new_user_group

    def test_trusts_a_ca_of_an_option_or_of_the_environment(self):
        with Answers(OF_GET, tls=self.of_server) as server:
            self.assertTrue(self.call(server, ca_file=str(self.ca)))
            with mock.patch.dict(os.environ, {"SSL_CERT_FILE": str(self.ca)}):
                self.assertTrue(self.call(server))

    def test_rejects_a_service_with_an_untrusted_certificate_at_once(self):
        async def call(url):
            async with AsyncClient(url, "t0ken-of-the-tests") as client:
                await client.user_groups.get_user_group(GROUP)

        sync_pause, async_pause = mock.patch.object(_calls.time, "sleep"), mock.patch.object(_calls.asyncio, "sleep")
        with Answers(OF_GET, tls=self.of_server) as server, sync_pause as slept, async_pause as slept_too:
            for by_client in (lambda: self.call(server), lambda: asyncio.run(call(server.url))):
                with self.assertRaisesRegex(ConnectError, "CERTIFICATE_VERIFY_FAILED") as failed:
                    by_client()
                self.assertEqual(failed.exception.code, Code.UNAVAILABLE)
        # The client sleeps before each retry, so no sleep means that there was no retry.
        self.assertEqual((slept.call_count, slept_too.call_count), (0, 0))

    def test_sends_a_client_certificate(self):
        self.of_server.verify_mode = ssl.CERT_REQUIRED
        with Answers(OF_GET, tls=self.of_server) as server:
            self.assertTrue(self.call(server, tls=self.of_client))
            with self.assertRaises(ConnectError):
                self.call(server, ca_file=str(self.ca))

    def test_rejects_ca_file_together_with_tls(self):
        with self.assertRaisesRegex(ValueError, "not both"):
            Client("https://groups.example.com", "t0ken-of-the-tests", ca_file=str(self.ca), tls=self.of_client)


if __name__ == "__main__":
    unittest.main()
