package outrider

import (
	"context"
	"io"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	outriderv1 "outrider/v1"
)

const shortestTime = 10 * time.Millisecond // that is worth a try: a server's clock may end a call as much before ours

// Stream gives the chunks of one generation as they arrive. One goroutine may use it.
type Stream struct {
	client     *Client
	generation *generation
	attempts   *attempts
	ctx        context.Context
	cancel     context.CancelFunc
	call       outriderv1.GenerationService_StreamGenerateClient // nil before each try
	drop       context.CancelFunc                                // ends the call
	err        error
}

// Recv returns the next chunk, io.EOF after the last one, or an *Error. A broken connection is resumed
// unnoticed.
func (s *Stream) Recv() (*outriderv1.Chunk, error) {
	for s.err == nil {
		chunk, err := s.next()
		switch {
		case err == nil && chunk != nil:
			return chunk, nil
		case s.generation.finished != nil: // all of it had arrived, even if the connection broke afterwards
			s.end(io.EOF)
		case err != nil:
			s.try(err)
		}
	}
	return nil, s.err
}

// Received returns all that has arrived so far; of a stream that Recv has ended with io.EOF, the whole.
func (s *Stream) Received() Received { return s.generation.received() }

// Close ends the call, if it has not ended.
func (s *Stream) Close() {
	if s.err == nil {
		s.end(&Error{Code: codes.Canceled, Message: "the stream was closed"})
	}
}

func (s *Stream) end(err error) {
	s.err = err
	s.cancel()
}

// next takes in one event of the call, which it makes if there is none.
func (s *Stream) next() (*outriderv1.Chunk, error) {
	if s.call == nil {
		server := s.client.servers[s.attempts.address]
		ctx, drop := context.WithCancel(s.ctx)
		s.drop = drop
		call, err := server.service.StreamGenerate(ctx, s.generation.nextRequest())
		if err != nil {
			return nil, err
		}
		s.call = call
	}
	response, err := s.call.Recv()
	if err == io.EOF && s.generation.finished == nil {
		err = status.Error(codes.Unavailable, "the server ended the stream early")
	}
	if err != nil {
		return nil, err
	}
	chunk, err := s.generation.receive(response)
	if len(chunk.GetTokenIds()) > 0 {
		s.attempts.progressed()
	}
	return chunk, err
}

// try waits until the call can be made again, or ends the stream with the error.
func (s *Stream) try(failure error) {
	var trailer metadata.MD
	if s.call != nil {
		trailer = s.call.Trailer()
	}
	s.drop() // a server whose fingerprint is refused would go on
	err := asError(failure, trailer)
	if unwanted := s.checkWanted(); unwanted != nil {
		s.end(unwanted)
		return
	}
	pause, final := s.attempts.failed(err, s.generation.started != nil)
	if final != nil {
		s.end(final)
		return
	}
	s.call = nil
	s.client.prefer(s.attempts.address)
	select {
	case <-time.After(pause):
	case <-s.client.open.Done():
	case <-s.ctx.Done():
	}
	if unwanted := s.checkWanted(); unwanted != nil { // nothing more is asked then
		s.end(unwanted)
	}
}

// checkWanted returns why the stream is to end, if it is.
func (s *Stream) checkWanted() *Error {
	if s.client.open.Err() != nil {
		return &Error{Code: codes.Canceled, Message: "the client was closed"}
	}
	err := s.ctx.Err()
	if deadline, ok := s.ctx.Deadline(); err == nil && ok && time.Until(deadline) < shortestTime {
		err = context.DeadlineExceeded
	}
	if err != nil {
		return &Error{Code: status.FromContextError(err).Code(), Message: err.Error()}
	}
	return nil
}
