"""The tools that the three Python servers have in common: what their policies limit,
deny and hide."""

import asyncio


async def work(ctx) -> str:
    """Reports its progress, pauses, reports again, and answers."""
    await ctx.info("work has begun")
    await ctx.report_progress(1, 2)
    await asyncio.sleep(1)
    await ctx.report_progress(2, 2)
    return "the work is done"


def count() -> str:
    """Is limited by the policy."""
    return "counted"


def remove() -> str:
    """Is denied by the policy."""
    return "removed"


def secret() -> str:
    """Is hidden by the policy."""
    return "secret"


def register(server, context) -> None:
    """Adds them to a server, whose SDK knows its context by this type."""
    work.__annotations__["ctx"] = context
    for tool in (work, count, remove, secret):
        server.tool()(tool)
