package outrider

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

const (
	pushback  = "grpc-retry-pushback-ms"
	unreached = "connection error: desc"
)

var (
	// broken is how gRPC reports a stream that a dying server or a proxy has reset, beside UNAVAILABLE.
	broken = []string{"RST_STREAM", "GOAWAY", "Stream removed", "unexpected EOF"}
	// lost is how it reports, as UNAVAILABLE, that a connection went with a call on it. One that never was is another
	// matter.
	lost = append([]string{"transport is closing", "error reading from server", "closing transport", "reset by peer",
		"broken pipe", "keepalive ping"}, broken...)
)

// Violation is one thing wrong with a request: the path of the field, and what it allows.
type Violation struct{ Field, Description string }

// Error tells of a call that failed.
type Error struct {
	Code    codes.Code
	Message string
	// Violations of InvalidArgument are everything that is wrong with the request.
	Violations []Violation
	// RetryAfter of ResourceExhausted is when the server wants to be asked again; nil if it does not.
	RetryAfter *time.Duration
	// Broke says, of Unavailable, that the connection went while the server was at work on the call.
	Broke bool
	// Lost says that this happened before anything had arrived, at a second server too. The call is not carried to further
	// ones: it may be what these died of.
	Lost bool
}

// Error returns the code, the message, and all violations.
func (e *Error) Error() string {
	lines := []string{fmt.Sprintf("%v: %s", e.Code, e.Message)}
	for _, violation := range e.Violations {
		lines = append(lines, violation.Field+": "+violation.Description)
	}
	return strings.Join(lines, "\n  ")
}

// GRPCStatus returns what status.Code and its like read.
func (e *Error) GRPCStatus() *status.Status { return status.New(e.Code, e.Message) }

// asError returns what stands for a failed call with these trailers.
func asError(failure error, trailer metadata.MD) *Error {
	if known, ok := failure.(*Error); ok {
		return known
	}
	failed := status.Convert(failure)
	err := &Error{Code: failed.Code(), Message: failed.Message()}
	if (err.Code == codes.Internal || err.Code == codes.Unknown) && containsAny(err.Message, broken) {
		err.Code = codes.Unavailable
	}
	switch err.Code {
	case codes.Unavailable:
		err.Broke = containsAny(err.Message, lost) && !strings.Contains(err.Message, unreached)
	case codes.InvalidArgument:
		err.Violations = violations(failed)
	case codes.ResourceExhausted:
		err.RetryAfter = retryAfter(failed, trailer)
	}
	return err
}

func violations(failed *status.Status) (found []Violation) {
	for _, detail := range failed.Details() {
		if badRequest, ok := detail.(*errdetails.BadRequest); ok {
			for _, violation := range badRequest.FieldViolations {
				found = append(found, Violation{violation.Field, violation.Description})
			}
		}
	}
	return found
}

func retryAfter(failed *status.Status, trailer metadata.MD) *time.Duration {
	if given := trailer.Get(pushback); len(given) > 0 {
		milliseconds, err := strconv.ParseUint(given[0], 10, 31)
		if err != nil {
			return nil
		}
		delay := time.Duration(milliseconds) * time.Millisecond
		return &delay
	}
	for _, detail := range failed.Details() {
		if info, ok := detail.(*errdetails.RetryInfo); ok {
			delay := info.RetryDelay.AsDuration()
			return &delay
		}
	}
	return nil
}

func containsAny(text string, marks []string) bool {
	for _, mark := range marks {
		if strings.Contains(text, mark) {
			return true
		}
	}
	return false
}
