"""A draft's messages to a target, written to protobuf and read from it."""

from collections.abc import Iterator

from outrider.v1 import draft_pb2
from services.draft_protocol.messages import AlternatePrediction, DraftLoad, DraftMessage, Prediction, Release


def write_response(message: DraftMessage | DraftLoad) -> draft_pb2.DraftResponse:
    """The protobuf of one message, which may be sent alone or merged with others."""
    match message:
        case AlternatePrediction():
            alternate = draft_pb2.Alternate(
                position=message.position,
                token_id=message.token_id,
                token_ids=message.token_ids,
                epoch=message.epoch,
            )
            predict = draft_pb2.Predict(
                sequence_id=message.sequence_id, epoch=message.from_epoch, alternates=[alternate]
            )
            return draft_pb2.DraftResponse(predict=predict)
        case Prediction():
            predict = draft_pb2.Predict(
                sequence_id=message.sequence_id,
                epoch=message.epoch,
                position=message.position,
                token_ids=message.token_ids,
                ends=message.ends,
            )
            return draft_pb2.DraftResponse(predict=predict)
        case Release():
            reason = draft_pb2.ReleaseReason.Value(message.reason)
            return draft_pb2.DraftResponse(released=draft_pb2.Released(sequence_id=message.sequence_id, reason=reason))
        case DraftLoad():
            return draft_pb2.DraftResponse(load=write_load(message))


def write_load(load: DraftLoad) -> draft_pb2.DraftLoad:
    """The protobuf of a draft's load, which a hello has too."""
    return draft_pb2.DraftLoad(other_sequences=load.other_sequences, free_tokens=load.free_tokens)


def read_load(message: draft_pb2.DraftLoad) -> DraftLoad:
    """The load that a draft reported."""
    return DraftLoad(message.other_sequences, message.free_tokens)


def read_predictions(message: draft_pb2.Predict) -> Iterator[Prediction | AlternatePrediction]:
    """The run and alternates of one message whose bounds were checked; a message with neither is an empty run."""
    if message.token_ids or not message.alternates:
        yield Prediction(message.sequence_id, message.epoch, message.position, tuple(message.token_ids), message.ends)
    for alternate in message.alternates:
        yield AlternatePrediction(
            message.sequence_id,
            alternate.epoch,
            alternate.position,
            alternate.token_id,
            tuple(alternate.token_ids),
            from_epoch=message.epoch,
        )


def read_release(message: draft_pb2.Released) -> Release:
    """A draft's message that it has dropped a sequence."""
    known = draft_pb2.ReleaseReason.DESCRIPTOR.values_by_number
    reason = known[message.reason].name if message.reason in known else f"reason {message.reason}"
    return Release(message.sequence_id, reason)
