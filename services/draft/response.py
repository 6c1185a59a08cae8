"""What the engine has to tell a target, as messages of the protocol."""

from outrider.v1 import draft_pb2
from services.draft.link import AlternatePrediction, Message, Prediction, Release, ReleaseReason

_REASONS = {
    ReleaseReason.OUT_OF_MEMORY: draft_pb2.RELEASE_REASON_OUT_OF_MEMORY,
    ReleaseReason.TOO_LONG: draft_pb2.RELEASE_REASON_TOO_LONG,
    ReleaseReason.REFUSED: draft_pb2.RELEASE_REASON_REFUSED,
}


def write_response(message: Message) -> draft_pb2.DraftResponse:
    """A message that may come by itself or with others."""
    match message:
        case AlternatePrediction():
            alternate = draft_pb2.Alternate(
                position=message.position,
                token_id=message.token_id,
                token_ids=message.token_ids,
                epoch=message.epoch,
            )
            return draft_pb2.DraftResponse(
                predict=draft_pb2.Predict(sequence_id=message.sequence_id, alternates=[alternate])
            )
        case Prediction():
            predict = draft_pb2.Predict(
                sequence_id=message.sequence_id,
                epoch=message.epoch,
                position=message.position,
                token_ids=message.token_ids,
            )
            return draft_pb2.DraftResponse(predict=predict)
        case Release():
            released = draft_pb2.Released(sequence_id=message.sequence_id, reason=_REASONS[message.reason])
            return draft_pb2.DraftResponse(released=released)
