#!/usr/bin/env python3
"""Several answers at a time with asyncio, one of which is given up."""

import asyncio

import bole


async def answer(client: bole.AsyncClient, prompt: str) -> str:
    pieces = []
    async with client.generate(prompt, temperature=0, max_tokens=24,
                               stream=True) as events:
        async for event in events:
            if isinstance(event, bole.Chunk):
                pieces.append(event.text)
    return "".join(pieces)


async def first_tokens(client: bole.AsyncClient, prompt: str) -> str:
    async with client.generate(prompt, max_tokens=4000, ignore_eos=True,
                               stream=True) as events:
        async for event in events:
            return event.text  # Leaving the block cancels the rest.
    return ""


async def main() -> None:
    async with bole.AsyncClient(timeout=60) as client:
        answers = await asyncio.gather(
            answer(client, "def add(a, b):\n"),
            answer(client, "import "),
            first_tokens(client, "class Stack:\n"))
        for text in answers:
            print("--")
            print(text)


asyncio.run(main())
