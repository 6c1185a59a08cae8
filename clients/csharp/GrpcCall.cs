using System;
using System.Buffers.Binary;
using System.IO;
using System.Linq;
using System.Net.Http;
using System.Net.Http.Headers;
using System.Threading;
using System.Threading.Tasks;
using Google.Protobuf;

/// <summary>Why a call failed; `Details` is a google.rpc.Status, or empty.</summary>
public sealed class RpcException : Exception
{
    public RpcException(int code, string message, byte[] details = null) : base(message)
    {
        Code = code;
        Details = details ?? new byte[0];
    }

    public int Code { get; }

    public byte[] Details { get; }
}

/// <summary>One gRPC call over HTTP/2: what a library such as Grpc.Net.Client does, where there is none.</summary>
public sealed class GrpcCall<TAnswer> : IDisposable where TAnswer : IMessage<TAnswer>, new()
{
    private const int Prefix = 5; // a byte that tells of compression, and four of the length
    private const uint MaxBytes = 4 << 20; // of an answer, as gRPC's libraries have it
    private const int Unknown = 2;
    private const int ResourceExhausted = 8;
    private const int Unavailable = 14;

    private readonly HttpResponseMessage response;
    private readonly Stream answers;
    private readonly CancellationToken cancellation;

    private GrpcCall(HttpResponseMessage response, Stream answers, CancellationToken cancellation)
    {
        this.response = response;
        this.answers = answers;
        this.cancellation = cancellation;
    }

    /// <summary>The answer that MoveNext has read.</summary>
    public TAnswer Current { get; private set; }

    /// <summary>Sends the one request; `cancellation` ends the call on the server too.</summary>
    public static async Task<GrpcCall<TAnswer>> Start(
        Endpoint endpoint, string path, IMessage request, CancellationToken cancellation)
    {
        var message = new HttpRequestMessage(HttpMethod.Post, new Uri(endpoint.Address, path))
        {
            Version = new Version(2, 0),
            Content = new ByteArrayContent(Framed(request)),
        };
#if NET5_0_OR_GREATER
        message.VersionPolicy = HttpVersionPolicy.RequestVersionExact;
#endif
        message.Content.Headers.ContentType = new MediaTypeHeaderValue("application/grpc");
        message.Headers.TE.Add(new TransferCodingWithQualityHeaderValue("trailers"));
        if (endpoint.Token != null)
        {
            message.Headers.Authorization = new AuthenticationHeaderValue("Bearer", endpoint.Token);
        }
        try
        {
            HttpResponseMessage response = await endpoint.Http.SendAsync(
                message, HttpCompletionOption.ResponseHeadersRead, cancellation);
            return new GrpcCall<TAnswer>(response, await response.Content.ReadAsStreamAsync(), cancellation);
        }
        catch (HttpRequestException error)
        {
            throw Lost(error);
        }
    }

    /// <summary>Reads the next answer; false after the last one.</summary>
    public async Task<bool> MoveNext()
    {
        try
        {
            byte[] prefix = await Read(Prefix);
            if (prefix == null)
            {
                Check();
                return false;
            }
            uint size = BinaryPrimitives.ReadUInt32BigEndian(prefix.AsSpan(1));
            if (size > MaxBytes)
            {
                throw new RpcException(ResourceExhausted, $"an answer has {size} bytes, of at most {MaxBytes}");
            }
            byte[] answer = await Read((int)size) ?? throw new IOException("the connection was lost");
            Current = new MessageParser<TAnswer>(() => new TAnswer()).ParseFrom(answer);
            return true;
        }
        catch (Exception error) when (error is IOException || error is HttpRequestException)
        {
            throw Lost(error);
        }
    }

    /// <summary>Ends the call on the server too, unless it has ended.</summary>
    public void Dispose()
    {
        response.Dispose();
    }

    /// <summary>So many bytes, or null where the stream ends before.</summary>
    private async Task<byte[]> Read(int size)
    {
        var bytes = new byte[size];
        for (int count = 0, read; count < size; count += read)
        {
            read = await answers.ReadAsync(bytes, count, size - count, cancellation);
            if (read == 0)
            {
                return null;
            }
        }
        return bytes;
    }

    /// <summary>Throws what the trailers say, or the headers of an answer without any message.</summary>
    private void Check()
    {
        HttpHeaders trailers = response.Headers.Contains("grpc-status")
            ? (HttpHeaders)response.Headers
            : response.TrailingHeaders;
        int code = int.TryParse(Value(trailers, "grpc-status"), out int number) ? number : Unknown;
        if (code != 0)
        {
            // What is not visible ASCII comes as percent signs and hexadecimal digits.
            string message = Uri.UnescapeDataString(Value(trailers, "grpc-message"));
            throw new RpcException(code, message, Unpacked(Value(trailers, "grpc-status-details-bin")));
        }
    }

    private static string Value(HttpHeaders headers, string name)
    {
        return headers.TryGetValues(name, out var values) ? values.First() : "";
    }

    /// <summary>The bytes of a header, whose base64 lacks its padding; none if it is broken.</summary>
    private static byte[] Unpacked(string text)
    {
        string padded = text.PadRight((text.Length + 3) / 4 * 4, '=');
        var bytes = new byte[padded.Length];
        return Convert.TryFromBase64String(padded, bytes, out int count) ? bytes.Take(count).ToArray() : new byte[0];
    }

    private static byte[] Framed(IMessage message)
    {
        var frame = new byte[Prefix + message.CalculateSize()];
        BinaryPrimitives.WriteUInt32BigEndian(frame.AsSpan(1), (uint)(frame.Length - Prefix));
        message.ToByteArray().CopyTo(frame, Prefix);
        return frame;
    }

    private static RpcException Lost(Exception error)
    {
        return new RpcException(Unavailable, error.GetBaseException().Message);
    }
}
