// Package outrider streams generated text as it is written, unbroken by servers that come and go.
package outrider

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"regexp"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"

	outriderv1 "outrider/v1"
)

//go:generate protoc -I ../../protos --go_out=. --go_opt=module=outrider --go-grpc_out=. --go-grpc_opt=module=outrider outrider/v1/common.proto outrider/v1/generation.proto

const (
	defaultRetries = 10
	defaultBackoff = 5 * time.Second
)

var (
	local = regexp.MustCompile(`^(unix:|localhost:|127\.\d+\.\d+\.\d+:|\[::1\]:)`)
	word  = regexp.MustCompile(`^[!-~]+$`)
)

// Options say how a client connects and how persistent it is.
type Options struct {
	// TLS is how connections are encrypted; nil leaves them in the clear.
	TLS *tls.Config
	// Token shows who calls: over TLS, or to this machine only.
	Token string
	// MaxRetries is how many times in a row every address is tried again without a token arriving: 10 if it is 0, and
	// not once if it is negative, which turns resuming off.
	MaxRetries int
	// MaxBackoff is what the pauses between such rounds grow to: five seconds if it is 0.
	MaxBackoff time.Duration
}

type server struct {
	channel *grpc.ClientConn
	service outriderv1.GenerationServiceClient
}

// Client is a connection to one or several servers that hold the same model. Goroutines may share it.
type Client struct {
	options   Options
	servers   []server
	preferred int32           // the address that calls start with
	open      context.Context // which Close ends
	close     context.CancelFunc
}

// NewClient connects to addresses such as "localhost:50051", the first one first.
func NewClient(addresses []string, options Options) (*Client, error) {
	if len(addresses) == 0 {
		return nil, errors.New(`a client needs at least one address, such as "localhost:50051"`)
	}
	if options.Token != "" && !word.MatchString(options.Token) {
		return nil, errors.New("a token must be one word of visible ASCII characters")
	}
	client := &Client{options: withDefaults(options)}
	client.open, client.close = context.WithCancel(context.Background())
	for _, address := range addresses {
		if options.Token != "" && options.TLS == nil && !local.MatchString(address) {
			client.Close()
			return nil, errors.New("a token is sent over TLS only, or to this machine")
		}
		// Newer releases of grpc-go prefer NewClient, but they keep Dial throughout 1.x, and the releases that
		// distributions ship have only that.
		channel, err := grpc.Dial(address, channelOptions(options.TLS)...)
		if err != nil {
			client.Close()
			return nil, fmt.Errorf("%s: %w", address, err)
		}
		client.servers = append(client.servers, server{channel, outriderv1.NewGenerationServiceClient(channel)})
	}
	return client, nil
}

func withDefaults(options Options) Options {
	if options.MaxRetries == 0 {
		options.MaxRetries = defaultRetries
	}
	if options.MaxRetries < 0 {
		options.MaxRetries = 0
	}
	if options.MaxBackoff == 0 {
		options.MaxBackoff = defaultBackoff
	}
	return options
}

func channelOptions(security *tls.Config) []grpc.DialOption {
	// No proxy reads what is sent in the clear. Newer releases prefer insecure.NewCredentials, which older ones lack.
	options := []grpc.DialOption{grpc.WithInsecure(), grpc.WithNoProxy()}
	if security != nil {
		options = []grpc.DialOption{grpc.WithTransportCredentials(credentials.NewTLS(security))}
	}
	// A server that comes back is reached within a second.
	reconnect := backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: time.Second}
	// A dead peer is noticed within 80 seconds of silence, even in the middle of a stream.
	alive := keepalive.ClientParameters{Time: time.Minute, Timeout: 20 * time.Second}
	return append(options,
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: reconnect, MinConnectTimeout: 20 * time.Second}),
		grpc.WithKeepaliveParams(alive),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(math.MaxInt32)),
	)
}

// Stream continues a prompt, chunk by chunk, until the context ends. Its deadline is that of all attempts together.
func (c *Client) Stream(ctx context.Context, request *outriderv1.StreamGenerateRequest) (*Stream, error) {
	if request.Prompt == nil || request.GetNumSamples() > 1 {
		return nil, errors.New("a stream needs a prompt, and num_samples of 1")
	}
	ctx, cancel := context.WithCancel(ctx)
	if c.options.Token != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+c.options.Token)
	}
	deadline, _ := ctx.Deadline()
	tries := &attempts{
		maxRetries:   c.options.MaxRetries,
		maxBackoff:   c.options.MaxBackoff,
		numAddresses: len(c.servers),
		address:      int(atomic.LoadInt32(&c.preferred)),
		deadline:     deadline,
		refused:      map[int]bool{},
	}
	return &Stream{client: c, generation: newGeneration(request), attempts: tries, ctx: ctx, cancel: cancel}, nil
}

func (c *Client) prefer(address int) { atomic.StoreInt32(&c.preferred, int32(address)) }

// Close ends all connections, and the streams on them.
func (c *Client) Close() {
	c.close()
	for _, server := range c.servers {
		server.channel.Close()
	}
}
