"""How the service describes itself: bodies and answers that FastAPI cannot see, as bodies are read by hand."""

from __future__ import annotations

import math
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from tacit.release.answer import Answerer

REFUSALS = {
    "401": "No key, or one that is not known or over",
    "403": "A key that is for something else",
    "408": "The body took too long to arrive",
    "409": "The releases were made by another filter",
    "413": "Too many bytes or releases",
    "415": "Neither JSON nor doubles",
    "422": "Not releases of this bundle",
    "429": "Too many requests of one key at a time; see Retry-After",
    "503": "Busy; see Retry-After",
}


def analyze_extra(answerer: Answerer, limits: Any) -> dict[str, Any]:
    """The request and the responses of POST /v1/analyze."""
    release: dict[str, Any] = {"type": "number", "minimum": -1e30, "maximum": 1e30}
    if answerer.codes is not None:
        release = {"type": "integer", "minimum": 0, "maximum": answerer.codes - 1}
    for n in reversed(answerer.shape):
        release = {"type": "array", "minItems": n, "maxItems": n, "items": release}
    several = {"type": "array", "minItems": 1, "maxItems": limits.max_rows, "items": release}
    body = {
        "type": "object",
        "required": ["release"],
        "additionalProperties": False,
        "properties": {"release": several},
    }
    doubles = {"type": "string", "format": "binary"}
    answers = {t["name"]: _answer(t["classes"]) for t in answerer.targets}
    answer = {
        "type": "object",
        "required": ["rows", "answers"],
        "properties": {
            "rows": {"type": "integer", "minimum": 1},
            "answers": {"type": "object", "required": sorted(answers), "properties": answers},
        },
    }
    detail = {"type": "object", "required": ["detail"], "properties": {"detail": {"type": "string"}}}
    return {
        "requestBody": {
            "required": True,
            "description": f"Releases; as doubles, {8 * math.prod(answerer.shape)} bytes each, little-endian",
            "content": {"application/json": {"schema": body}, "application/octet-stream": {"schema": doubles}},
        },
        "parameters": [
            {
                "name": "Tacit-Model",
                "in": "header",
                "required": False,
                "description": "SHA-256 of the filter that made the releases: refused if it is another",
                "schema": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
            }
        ],
        "responses": {
            "200": {"description": "Answers, in the order of the releases", "content": _json(answer)},
            **{code: {"description": what, "content": _json(detail)} for code, what in REFUSALS.items()},
        },
    }


def with_security(app: FastAPI, needs_key: bool) -> None:
    """Say in the schema that a key is needed."""

    def schema() -> dict[str, Any]:
        if app.openapi_schema is None:
            made = get_openapi(title=app.title, version=app.version, routes=app.routes)
            if needs_key:
                made.setdefault("components", {})["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
                made["paths"]["/v1/analyze"]["post"]["security"] = [{"key": []}]
            app.openapi_schema = made
        return app.openapi_schema

    app.openapi = schema  # type: ignore[method-assign]


def _answer(classes: list[Any]) -> dict[str, Any]:
    share = {"type": "number", "minimum": 0, "maximum": 1}
    each = {"type": "array", "minItems": len(classes), "maxItems": len(classes), "items": share}
    return {
        "type": "object",
        "required": ["label", "probabilities"],
        "properties": {
            "label": {"type": "array", "items": {"enum": classes}},
            "probabilities": {"type": "array", "items": each},
        },
    }


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}
