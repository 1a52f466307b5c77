"""The WebSocket ``GET /v1/stream``: many runs on one connection.

    opening    from the request to the end of the socket: its three tasks
    session    what one client asks for, and what is done about it
    outgoing   what waits for the client, and the task that writes it
    frames     what is sent: JSON objects in text frames (RFC 6455)
    input      what comes in, measured: how many pieces, and how slowly
    stream     the stream under a socket, which two write to
    handshake  whether a request may have a socket at all

What clients send and are sent is on docs/reference/websocket.md. Modules are imported
directly: the library is loaded for the first socket, and not before.
"""
