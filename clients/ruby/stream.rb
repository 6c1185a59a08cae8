#!/usr/bin/env ruby
# frozen_string_literal: true

# Continues a prompt and prints the text as it streams, then what it cost.

$LOAD_PATH.unshift(File.join(__dir__, 'lib')) # what grpc_tools_ruby_protoc has made

require 'optparse'
require 'outrider/v1/errors_pb'
require 'outrider/v1/generation_services_pb'

USAGE = <<~TEXT
  usage: stream.rb [--address HOST:PORT] [--max-tokens N] [--temperature X] [--seed N]
      [--tls-ca FILE [--tls-cert FILE --tls-key FILE]] [--token-file FILE] PROMPT
TEXT
LOCAL = /\A(unix:|localhost:|127\.\d+\.\d+\.\d+:|\[::1\]:)/.freeze
INTERRUPTED = 130 # as shells report a process that SIGINT ended

# What is wrong with the command line.
class UsageError < StandardError; end

# Reads the command line. What it leaves out is nil, and a field that is nil is not sent: the server's default holds.
def read_arguments(argv)
  options = { address: 'localhost:50051' }
  parser = OptionParser.new
  parser.on('--address HOST:PORT') { |value| options[:address] = value }
  parser.on('--max-tokens N', /\A-?\d+\z/) { |value| options[:max_tokens] = Integer(value, 10) }
  parser.on('--temperature X', Float) { |value| options[:temperature] = value }
  parser.on('--seed N', /\A\d+\z/) { |value| options[:seed] = Integer(value, 10) }
  { 'tls-ca': :authorities, 'tls-cert': :certificate, 'tls-key': :key, 'token-file': :token }.each do |name, key|
    parser.on("--#{name} FILE") { |value| options[key] = File.read(value) }
  end
  prompts = parser.parse(argv)
  raise UsageError, 'exactly one prompt is needed' unless prompts.one?

  check(options)
  options.merge(prompt: prompts.first.dup.force_encoding(Encoding::UTF_8))
rescue OptionParser::ParseError, SystemCallError => e
  raise UsageError, e.message
end

def check(options)
  return if options[:authorities]
  raise UsageError, '--tls-cert and --tls-key need --tls-ca' if options[:certificate] || options[:key]
  return if !options[:token] || options[:address].match?(LOCAL)

  raise UsageError, 'a token is sent over TLS only, or to this machine'
end

def request(options)
  Outrider::V1::StreamGenerateRequest.new(
    prompt: Outrider::V1::Prompt.new(text: options[:prompt]),
    sampling: Outrider::V1::SamplingParameters.new(**options.slice(:temperature, :seed)),
    stop: Outrider::V1::StopConditions.new(**options.slice(:max_tokens))
  )
end

# The call, which has not begun: over TLS where there are authorities to trust, and with the token, if there is one.
def call(options)
  authorities = options[:authorities]
  security = :this_channel_is_insecure
  security = GRPC::Core::ChannelCredentials.new(authorities, options[:key], options[:certificate]) if authorities
  metadata = options[:token] ? { 'authorization' => "Bearer #{options[:token].strip}" } : {}
  # No proxy reads what is sent in the clear: gRPC would send even localhost through the one that http_proxy names.
  channel = authorities ? {} : { 'grpc.enable_http_proxy' => 0 }
  stub = Outrider::V1::GenerationService::Stub.new(options[:address], security, channel_args: channel)
  stub.stream_generate(request(options), metadata: metadata, return_op: true)
end

# Prints the text of a call as it arrives and returns the last message.
def print_text(call)
  finished = nil
  has_text = false
  call.execute.each do |response|
    finished = response.finished || finished
    text = (response.chunk || response.finished)&.text.to_s
    has_text ||= !text.empty?
    $stdout.write(text)
    $stdout.flush
  end
  finished || raise(GRPC::DataLoss, 'the server ended the stream early')
ensure
  $stdout.puts if has_text
end

def seconds(duration)
  duration ? duration.seconds + duration.nanos / 1e9 : 0.0
end

# Tokens, their rate, the time to the first one, what speculation did, and why the text ended, in one line.
def figures(finished)
  count = finished.usage.completion_tokens
  first = finished.timings.first_token
  speculation = finished.speculation
  decode = seconds(finished.timings.decode)
  parts = [count == 1 ? '1 token' : "#{count} tokens"]
  parts << format('%.1f tokens/s', (count - 1) / decode) if count > 1 && decode.positive?
  parts << format('first token after %.0f ms', seconds(first) * 1000) if first
  parts << format('%.2f tokens per pass', speculation.tokens_per_pass) if speculation.passes.positive?
  parts << acceptance(speculation)
  parts << "ended by #{finished.reason.to_s.delete_prefix('FINISH_REASON_').tr('_', ' ').downcase}"
  parts.join(' · ')
end

def acceptance(speculation)
  return 'no predictions' unless speculation.predicted.positive?

  format('%.0f %% accepted', 100.0 * speculation.accepted / speculation.predicted)
end

# The lines that tell a person what is wrong: one per bad field, or else the status.
def explain(error)
  found = violations(error)
  return ["gRPC status #{error.code}: #{error.details}"] if found.empty?

  found.map { |violation| "#{violation.field}: #{violation.description}" }
end

def violations(error)
  details = error.metadata['grpc-status-details-bin']
  status = details ? Outrider::V1::ErrorStatus.decode(details) : Outrider::V1::ErrorStatus.new
  status.details.select { |detail| detail.type_url.end_with?('/google.rpc.BadRequest') }
        .flat_map { |detail| Outrider::V1::BadRequestDetail.decode(detail.value).field_violations.to_a }
rescue Google::Protobuf::ParseError
  [] # the status alone still says what is wrong
end

# A thread of its own reads, so that Ctrl-C finds this one at rest.
def run(call)
  reader = Thread.new { print_text(call) }
  reader.report_on_exception = false
  warn figures(reader.value)
  0
rescue Interrupt
  call.cancel
  INTERRUPTED
rescue GRPC::BadStatus => e
  warn explain(e)
  1
end

if $PROGRAM_NAME == __FILE__
  begin
    exit run(call(read_arguments(ARGV)))
  rescue UsageError => e
    warn e.message, USAGE
    exit 2
  end
end
