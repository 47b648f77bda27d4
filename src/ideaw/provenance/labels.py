"""The label that China's GB 45438-2025 asks for in the metadata of generated audio: one JSON text named AIGC.

Who makes it, and the id of what was made; the fields for who spreads it are left to them. This is no legal advice.
"""

import json

from ideaw.provenance.records import written_id

LABEL_NAME = "AIGC"
"""Name of the text in a file's metadata."""

_IS_GENERATED = "1"
"""The standard's value for what is generated, and not only likely to be."""


def label_cn(producer: str, record_id: int) -> str:
    """The label as JSON in ASCII.

    Args:
        producer: name or code of the service that generated the audio.
        record_id: id in the mark, which is the number of the content.
    """
    fields = {
        "Label": _IS_GENERATED,
        "ContentProducer": producer,
        "ProduceID": written_id(record_id),
        "ReservedCode1": "",
        "ContentPropagator": "",
        "PropagateID": "",
        "ReservedCode2": "",
    }
    return json.dumps({LABEL_NAME: fields})
