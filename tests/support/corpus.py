"""Ambiguous or forbidden requests, and the answers they must get."""

from __future__ import annotations

from dataclasses import dataclass

GET = b"GET / HTTP/1.1\r\nHost: x\r\n"
POST = b"POST /v1/x HTTP/1.1\r\nHost: x\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"
SMUGGLED = b"GET /smuggled?model=alpha HTTP/1.1\r\nHost: x\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    said: bytes
    status: int
    is_lost: bool = True
    """The end of this request is unknown or too far away: the connection must close."""


def with_length(*lines: bytes, body: bytes = b"hello") -> bytes:
    return POST + b"".join(b"Content-Length" + line + b"\r\n" for line in lines) + b"\r\n" + body


def with_coding(*codings: bytes) -> bytes:
    return POST + b"".join(b"Transfer-Encoding" + coding + b"\r\n" for coding in codings) + b"\r\n" + END


def with_line(line: bytes) -> bytes:
    return GET + line + b"\r\n\r\n"


def with_host(host: bytes) -> bytes:
    return b"GET / HTTP/1.1\r\nHost: " + host + b"\r\n\r\n"


def with_first_line(line: bytes) -> bytes:
    return line + b"\r\nHost: x\r\n\r\n"


FRAMING = [
    Case("length and chunks", POST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n" + END, 400),
    Case("chunks and length", POST + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n" + END, 400),
    Case("chunks and no length", POST + b"Transfer-Encoding: chunked\r\nContent-Length:\r\n\r\n" + END, 400),
    Case("length and another coding", POST + b"Content-Length: 5\r\nTransfer-Encoding: identity\r\n\r\nhello", 400),
    Case("two lengths", with_length(b": 5", b": 6"), 400),
    Case("the same length twice", with_length(b": 5", b": 5"), 400),
    Case("tab before a length", with_length(b":\t5"), 400),
    Case("tab after a length", with_length(b": 5\t"), 400),
    Case("tab before a coding", POST + b"Transfer-Encoding:\tchunked\r\n\r\n" + END, 400),
    Case("signed length", with_length(b": +5"), 400),
    Case("negative length", with_length(b": -5"), 400),
    Case("list of lengths", with_length(b": 5, 5"), 400),
    Case("length in letters", with_length(b": five"), 400),
    Case("length in base 16", with_length(b": 0x5"), 400),
    Case("length with an underscore", with_length(b": 1_0"), 400),
    Case("length with a fraction", with_length(b": 5.0"), 400),
    Case("length in two words", with_length(b": 5 5"), 400),
    Case("empty length", with_length(b": "), 400),
    Case("length in other digits", with_length(b": \xb2"), 400),
    Case("blank before the length's colon", with_length(b" : 5"), 400),
    Case("control character before the length", with_length(b": \x0b5"), 400),
    Case("length with 19 digits", with_length(b": " + b"9" * 19), 413),
    Case("length beyond 64 bits", with_length(b": " + b"9" * 30), 400),
    Case("length above the limit", with_length(b": " + b"9" * 15), 413),
    Case("unknown coding", with_coding(b": xchunked"), 501),
    Case("coding with a tail", with_coding(b": chunkedx"), 501),
    Case("quoted coding", with_coding(b': "chunked"'), 501),
    Case("gzip", with_coding(b": gzip"), 501),
    Case("identity", with_coding(b": identity"), 501),
    Case("gzip below chunked", with_coding(b": gzip, chunked"), 501),
    Case("gzip below chunked on two lines", with_coding(b": gzip", b": chunked"), 501),
    Case("chunked below gzip on two lines", with_coding(b": chunked", b": gzip"), 400),
    Case("chunked below identity", with_coding(b": chunked, identity"), 400),
    Case("chunked twice", with_coding(b": chunked, chunked"), 400),
    Case("chunked on two lines", with_coding(b": chunked", b": chunked"), 400),
    Case("empty coding", with_coding(b": "), 400),
    Case("blank before the coding's colon", with_coding(b" : chunked"), 400),
    Case("control character before the coding", with_coding(b": \x0bchunked"), 400),
    Case("folded coding", with_coding(b":\r\n chunked"), 400),
    Case("coding in HTTP/1.0", CHUNKED.replace(b"/1.1", b"/1.0") + END, 400),
]

CHUNKS = [
    Case("line feed in an extension", CHUNKED + b"5;a\nb\r\nhello\r\n" + END, 400),
    Case("line feed after a size", CHUNKED + b"5\nhello\r\n" + END, 400),
    Case("carriage return after a size", CHUNKED + b"5\rhello\r\n" + END, 400),
    Case("size with a prefix", CHUNKED + b"0x5\r\nhello\r\n" + END, 400),
    Case("size with a sign", CHUNKED + b"+5\r\nhello\r\n" + END, 400),
    Case("negative size", CHUNKED + b"-5\r\nhello\r\n" + END, 400),
    Case("blank before a size", CHUNKED + b" 5\r\nhello\r\n" + END, 400),
    Case("blank after a size", CHUNKED + b"5 \r\nhello\r\n" + END, 400),
    Case("no size", CHUNKED + b"\r\nhello\r\n" + END, 400),
    Case("size in letters", CHUNKED + b"five\r\nhello\r\n" + END, 400),
    Case("size with an underscore", CHUNKED + b"1_0\r\nhello\r\n" + END, 400),
    Case("size beyond 64 bits", CHUNKED + b"fffffffffffffffff\r\n", 400),
    Case("chunk longer than its size", CHUNKED + b"5\r\nhelloXX" + END, 400),
    Case("chunk with a bare line feed behind", CHUNKED + b"5\r\nhello\n" + END, 400),
    Case("chunk shorter than its size", CHUNKED + b"6\r\nhello\r\n" + END, 400),
    Case("bad trailer", CHUNKED + b"5\r\nhello\r\n0\r\nX-A 1\r\n\r\n", 400),
    Case("folded trailer", CHUNKED + b"0\r\nX-A: 1\r\n b\r\n\r\n", 400),
    Case("huge trailers", CHUNKED + b"5\r\nhello\r\n0\r\n" + b"X: y\r\n" * 170_000 + b"\r\n", 431),
    Case("endless extension", CHUNKED + b"5;" + b"a" * 1_000_000, 431),
    Case("many extensions", CHUNKED + b"5" + b";a=b" * 250_000, 431),
]

LINES = [
    Case("bare line feeds", b"GET / HTTP/1.1\nHost: x\n\n", 400),
    Case("bare line feed after a field", GET + b"X-A: 1\n\r\n", 400),
    Case("bare line feed at the end", GET + b"X-A: 1\r\n\n", 400),
    Case("bare carriage returns", b"GET / HTTP/1.1\rHost: x\r\r", 400),
    Case("folded field", with_line(b"X-A: 1\r\n foo"), 400),
    Case("field folded with a tab", with_line(b"X-A: 1\r\n\tfoo"), 400),
    Case("folded first field", b"GET / HTTP/1.1\r\n Host: x\r\n\r\n", 400),
    Case("blank before a colon", with_line(b"X-A : 1"), 400),
    Case("tab before a colon", with_line(b"X-A\t: 1"), 400),
    Case("no colon", with_line(b"X-A"), 400),
    Case("no name", with_line(b": 1"), 400),
    Case("name with a blank", with_line(b"X A: 1"), 400),
    Case("name with a bracket", with_line(b"X(A): 1"), 400),
    Case("name beyond ASCII", with_line(b"X-\xe4: 1"), 400),
    Case("NUL in a name", with_line(b"X\0A: 1"), 400),
    Case("NUL in a value", with_line(b"X-A: a\0b"), 400),
    Case("carriage return in a value", with_line(b"X-A: a\rb"), 400),
    Case("control character in a value", with_line(b"X-A: \x01"), 400),
    Case("delete character in a value", with_line(b"X-A: \x7f"), 400),
    Case("huge field", with_line(b"X-A: " + b"a" * 200_000), 431),
    Case("many fields", with_line(b"X-A: 1\r\n" * 20_000 + b"X-B: 2"), 431),
    Case("huge target", b"GET /" + b"a" * 200_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n", 431),
]

FIRST_LINES = [
    Case("lower-case method", with_first_line(b"get / HTTP/1.1"), 400),
    Case("unknown method", with_first_line(b"NONSENSE / HTTP/1.1"), 400),
    Case("tunnel", with_first_line(b"CONNECT x:80 HTTP/1.1"), 501),
    Case("HTTP/1.2", with_first_line(b"GET / HTTP/1.2"), 400),
    Case("HTTP/2.0", with_first_line(b"GET / HTTP/2.0"), 400),
    Case("HTTP/0.9", with_first_line(b"GET / HTTP/0.9"), 400),
    Case("HTTP/11", with_first_line(b"GET / HTTP/11"), 400),
    Case("RTSP", with_first_line(b"GET / RTSP/1.0"), 400),
    Case("ICE", with_first_line(b"SOURCE / ICE/1.0"), 400),
    Case("small letters", with_first_line(b"GET / http/1.1"), 400),
    Case("no version", b"GET /\r\n\r\n", 400),
    Case("no target", with_first_line(b"GET HTTP/1.1"), 400),
    Case("blank after the version", with_first_line(b"GET / HTTP/1.1 "), 400),
    Case("tab between", with_first_line(b"GET\t/ HTTP/1.1"), 400),
    Case("blank in the target", with_first_line(b"GET /a b HTTP/1.1"), 400),
    Case("NUL in the target", with_first_line(b"GET /\0 HTTP/1.1"), 400),
    Case("control character in the target", with_first_line(b"GET /\x01 HTTP/1.1"), 400),
    Case("target beyond ASCII", with_first_line(b"GET /\xe4 HTTP/1.1"), 400),
    Case("greeting of HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    Case("greeting of TLS", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc", 400),
    Case("asterisk", with_first_line(b"OPTIONS * HTTP/1.1"), 400, is_lost=False),
    Case("another host in the target", with_first_line(b"GET http://evil/a HTTP/1.1"), 400, is_lost=False),
    Case("another scheme in the target", with_first_line(b"GET file://x/a HTTP/1.1"), 400, is_lost=False),
    Case("dot segments", with_first_line(b"GET /upstream/alpha/../../etc HTTP/1.1"), 400, is_lost=False),
    Case("encoded dot segments", with_first_line(b"GET /upstream/alpha/%2e%2e%2fetc HTTP/1.1"), 400, is_lost=False),
    Case("half encoded dot segments", with_first_line(b"GET /upstream/alpha/.%2E/etc HTTP/1.1"), 400, is_lost=False),
]

HOSTS = [
    Case("no host", b"GET / HTTP/1.1\r\n\r\n", 400),
    Case("two hosts", GET + b"Host: y\r\n\r\n", 400),
    Case("the same host twice", GET + b"host: x\r\n\r\n", 400),
    *(
        Case(f"host {host.decode('latin-1')!r}", with_host(host), 400, is_lost=False)
        for host in (
            *(b"", b"x/?", b"a@x", b"x#a", b"x\\a", b"x%41", b"x y", b"x,y", b"x;y", b"x\ty", b"x:", b"x:a", b"x:-1"),
            *(
                b"x:65536",
                b"x:80:80",
                b"x:+80",
                b"[::1",
                b"::1",
                b"[::1]x",
                b"[fe80::1%25eth0]",
                b"\xe4",
                b"<x>",
            ),
        )
    ),
]

OTHERS = [
    Case("unknown expectation", POST + b"Expect: 200-ok\r\nContent-Length: 5\r\n\r\n", 417),
    Case("expecting too much", POST + b"Expect: 100-continue\r\nContent-Length: 99999999999\r\n\r\n", 413),
    Case("two origins", with_line(b"Origin: http://x\r\nOrigin: http://evil"), 400),
    Case("two keys", with_line(b"Authorization: Bearer a\r\nAuthorization: Bearer b"), 400),
    Case("compressed", POST + b"Content-Encoding: gzip\r\nContent-Length: 5\r\n\r\nhello", 415, is_lost=False),
]

CORPUS = [*FRAMING, *CHUNKS, *LINES, *FIRST_LINES, *HOSTS, *OTHERS]
