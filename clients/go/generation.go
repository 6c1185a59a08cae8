package outrider

import (
	"fmt"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	outriderv1 "outrider/v1"
)

// Received is what has arrived of a generation that may not be whole.
type Received struct {
	// Started is nil until the generation has.
	Started *outriderv1.Started
	Text    string
	// TokenIDs begin with those of the request's own ContinueFrom.
	TokenIDs []uint32
	// Records are one per id that has arrived, and one per token of the prompt, if asked for.
	Records, PromptRecords []*outriderv1.TokenRecord
	// Finished is nil until the generation is whole.
	Finished *outriderv1.Finished
	// Resumed is how many times the generation was interrupted and taken up again.
	Resumed int
}

// generation is what has arrived of one stream, and how to take it up again. It does no input or output itself.
type generation struct {
	request                *outriderv1.StreamGenerateRequest
	started                *outriderv1.Started
	finished               *outriderv1.Finished
	text                   strings.Builder
	tokenIDs               []uint32
	records, promptRecords []*outriderv1.TokenRecord
	resumed                int
}

func newGeneration(request *outriderv1.StreamGenerateRequest) *generation {
	request = proto.Clone(request).(*outriderv1.StreamGenerateRequest)
	if request.Output == nil {
		request.Output = &outriderv1.OutputOptions{}
	}
	request.Output.PromptTokenIds = proto.Bool(true)
	received := append([]uint32(nil), request.GetContinueFrom().GetTokenIds()...)
	return &generation{request: request, tokenIDs: received}
}

// nextRequest returns what to send now: the original request until the generation has started, then its continuation.
func (g *generation) nextRequest() *outriderv1.StreamGenerateRequest {
	if g.started == nil {
		return g.request
	}
	request := proto.Clone(g.request).(*outriderv1.StreamGenerateRequest)
	if chat := request.GetPrompt().GetChat(); chat != nil && len(chat.Tools) > 0 { // parsing their calls needs the schemas
		if request.Output == nil {
			request.Output = &outriderv1.OutputOptions{}
		}
		request.Output.Tools = chat.Tools
	}
	request.Prompt.Input = &outriderv1.Prompt_TokenIds{TokenIds: &outriderv1.TokenIds{Ids: g.started.PromptTokenIds}}
	if request.Sampling == nil {
		request.Sampling = &outriderv1.SamplingParameters{}
	}
	request.Sampling.Seed = &g.started.Seed
	request.RequestId = &g.started.RequestId
	if g.started.Grammar != nil { // the server's own, where it made one of a tool choice
		request.Grammar = g.started.Grammar
	}
	request.ContinueFrom = &outriderv1.Continuation{Fingerprint: g.started.Fingerprint, TokenIds: g.tokenIDs}
	return request
}

// receive takes in one event and returns its chunk, if it is one, or the last text if it ends the generation.
func (g *generation) receive(response *outriderv1.StreamGenerateResponse) (*outriderv1.Chunk, error) {
	switch event := response.Event.(type) {
	case *outriderv1.StreamGenerateResponse_Started:
		return nil, g.receiveStarted(event.Started)
	case *outriderv1.StreamGenerateResponse_Prefill:
		g.promptRecords = append(g.promptRecords, event.Prefill.Records...)
	case *outriderv1.StreamGenerateResponse_Chunk:
		g.text.WriteString(event.Chunk.Text)
		g.tokenIDs = append(g.tokenIDs, event.Chunk.TokenIds...)
		g.records = append(g.records, event.Chunk.Records...)
		return event.Chunk, nil
	case *outriderv1.StreamGenerateResponse_Finished:
		g.finished = event.Finished
		g.text.WriteString(event.Finished.Text)
		if event.Finished.Text != "" || len(event.Finished.MessageDeltas) > 0 {
			return &outriderv1.Chunk{Text: event.Finished.Text, MessageDeltas: event.Finished.MessageDeltas}, nil
		}
	}
	return nil, nil
}

func (g *generation) receiveStarted(started *outriderv1.Started) error {
	if g.started == nil {
		g.started = started
		return nil
	}
	if started.Fingerprint != g.started.Fingerprint || started.Seed != g.started.Seed {
		message := fmt.Sprintf("the server continues with fingerprint %s and seed %d, but the generation has %s and %d",
			started.Fingerprint, started.Seed, g.started.Fingerprint, g.started.Seed)
		return &Error{Code: codes.FailedPrecondition, Message: message}
	}
	g.resumed++
	if len(g.tokenIDs) == 0 {
		g.promptRecords = nil // they come anew
	}
	return nil
}

func (g *generation) received() Received {
	return Received{g.started, g.text.String(), g.tokenIDs, g.records, g.promptRecords, g.finished, g.resumed}
}
