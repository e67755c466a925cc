"""Relays TCP from one loopback port to another until it is ended. Before and after that the port refuses connections.

    relay.py PORT TARGET_PORT

Prints a line when it listens.
"""
import asyncio
import sys

port, target = int(sys.argv[1]), int(sys.argv[2])


async def copy(reader, writer):
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


async def accept(reader, writer):
    try:
        target_reader, target_writer = await asyncio.open_connection("127.0.0.1", target)
    except ConnectionError:
        return writer.close()
    await asyncio.gather(copy(reader, target_writer), copy(target_reader, writer))


async def main():
    server = await asyncio.start_server(accept, "127.0.0.1", port)
    print("ready", flush=True)
    async with server:
        await server.serve_forever()


asyncio.run(main())
