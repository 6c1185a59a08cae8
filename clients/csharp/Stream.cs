using System;
using System.Collections.Generic;
using System.Globalization;
using System.IO;
using System.Linq;
using System.Text;
using System.Text.RegularExpressions;
using System.Threading;
using System.Threading.Tasks;
using Google.Protobuf;
using Google.Protobuf.WellKnownTypes;
using Outrider.V1;

/// <summary>Continues a prompt and prints the text as it streams, then what it cost.</summary>
public static class Program
{
    private const string StreamGenerate = "/outrider.v1.GenerationService/StreamGenerate";
    private const int DataLoss = 15;
    private const int Failed = 1;
    private const int WrongUsage = 2;
    private const int Interrupted = 130; // as shells report a process that SIGINT ended

    // Not the encoding of the locale, which may know few characters.
    private static readonly TextWriter Out = Writer(Console.OpenStandardOutput());
    private static readonly TextWriter Error = Writer(Console.OpenStandardError());

    public static int Main(string[] arguments)
    {
        try
        {
            Arguments read = Arguments.Read(arguments);
            using (Endpoint endpoint = Endpoint.From(read))
            {
                return Run(endpoint, read.Request()).GetAwaiter().GetResult();
            }
        }
        catch (UsageException error)
        {
            Error.WriteLine(error.Message + "\n" + Arguments.Usage);
            return WrongUsage;
        }
    }

    private static TextWriter Writer(System.IO.Stream stream)
    {
        return new StreamWriter(stream, new UTF8Encoding(false)) { AutoFlush = true, NewLine = "\n" };
    }

    /// <summary>Streams to the end and returns the exit code.</summary>
    private static async Task<int> Run(Endpoint endpoint, StreamGenerateRequest request)
    {
        using (var interrupted = new CancellationTokenSource())
        {
            Console.CancelKeyPress += (sender, press) =>
            {
                press.Cancel = true; // the process ends once the call has
                interrupted.Cancel();
            };
            try
            {
                using (var call = await GrpcCall<StreamGenerateResponse>.Start(
                    endpoint, StreamGenerate, request, interrupted.Token))
                {
                    Error.WriteLine(Figures(await PrintText(call)));
                    return 0;
                }
            }
            catch (Exception) when (interrupted.IsCancellationRequested)
            {
                return Interrupted;
            }
            catch (RpcException error)
            {
                Explain(error).ForEach(Error.WriteLine);
                return Failed;
            }
        }
    }

    /// <summary>Prints the text of a call as it arrives and returns the last message.</summary>
    private static async Task<Finished> PrintText(GrpcCall<StreamGenerateResponse> call)
    {
        Finished finished = null;
        bool hasText = false;
        try
        {
            while (await call.MoveNext())
            {
                finished = call.Current.Finished ?? finished;
                string text = call.Current.Chunk?.Text ?? call.Current.Finished?.Text ?? "";
                Out.Write(text);
                hasText |= text.Length > 0;
            }
        }
        finally
        {
            if (hasText)
            {
                Out.WriteLine();
            }
        }
        return finished ?? throw new RpcException(DataLoss, "the server ended the stream early");
    }

    private static double Seconds(Duration duration)
    {
        return duration == null ? 0 : duration.Seconds + duration.Nanos / 1e9;
    }

    /// <summary>
    /// Tokens, their rate, the time to the first one, what speculation did, and why the text ended, in one line.
    /// </summary>
    private static string Figures(Finished finished)
    {
        uint count = finished.Usage?.CompletionTokens ?? 0;
        double decode = Seconds(finished.Timings?.Decode);
        SpeculationStats speculation = finished.Speculation ?? new SpeculationStats();
        var parts = new List<string> { count == 1 ? "1 token" : $"{count} tokens" };
        if (count > 1 && decode > 0)
        {
            parts.Add(Format("{0:F1} tokens/s", (count - 1) / decode));
        }
        if (finished.Timings?.FirstToken != null)
        {
            parts.Add(Format("first token after {0:F0} ms", 1000 * Seconds(finished.Timings.FirstToken)));
        }
        if (speculation.Passes > 0)
        {
            parts.Add(Format("{0:F2} tokens per pass", speculation.TokensPerPass));
        }
        double acceptance = 100.0 * speculation.Accepted / speculation.Predicted;
        parts.Add(speculation.Predicted > 0 ? Format("{0:F0} % accepted", acceptance) : "no predictions");
        parts.Add("ended by " + Words(finished.Reason));
        return string.Join(" · ", parts);
    }

    /// <summary>"max tokens" for MaxTokens; a reason newer than these stubs is shown as its number.</summary>
    private static string Words(FinishReason reason)
    {
        return Regex.Replace(reason.ToString(), "(?<=[a-z])(?=[A-Z])", " ").ToLowerInvariant();
    }

    private static string Format(string pattern, double number)
    {
        return string.Format(CultureInfo.InvariantCulture, pattern, number);
    }

    /// <summary>The lines that tell a person what is wrong: one per bad field, or else the status.</summary>
    private static List<string> Explain(RpcException error)
    {
        var lines = new List<string>();
        try
        {
            lines.AddRange(
                from detail in ErrorStatus.Parser.ParseFrom(error.Details).Details
                where detail.TypeUrl.EndsWith("/google.rpc.BadRequest", StringComparison.Ordinal)
                from violation in BadRequestDetail.Parser.ParseFrom(detail.Value).FieldViolations
                select $"{violation.Field}: {violation.Description}");
        }
        catch (InvalidProtocolBufferException)
        {
            lines.Clear(); // the status alone still says what is wrong
        }
        return lines.Count > 0 ? lines : new List<string> { $"gRPC status {error.Code}: {error.Message}" };
    }
}
