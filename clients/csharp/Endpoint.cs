using System;
using System.IO;
using System.Net.Http;
using System.Security.Cryptography;
using System.Threading;

/// <summary>Where calls go, and what they show.</summary>
public sealed class Endpoint : IDisposable
{
    private Endpoint(Uri address, string token, HttpMessageHandler handler)
    {
        Address = address;
        Token = token;
        Http = new HttpClient(handler) { Timeout = Timeout.InfiniteTimeSpan }; // an answer may be long in coming
    }

    public Uri Address { get; }

    /// <summary>The token that is shown, or null.</summary>
    public string Token { get; }

    public HttpClient Http { get; }

    /// <summary>TLS where there are authorities to trust, else clear text; a certificate of ours goes with its key.</summary>
    public static Endpoint From(Arguments arguments)
    {
        bool isEncrypted = arguments["tls-ca"] != null;
        string where = arguments["address"] ?? "localhost:50051";
        if (!Uri.TryCreate((isEncrypted ? "https://" : "http://") + where, UriKind.Absolute, out Uri address))
        {
            throw new UsageException($"--address cannot be \"{where}\"");
        }
        if (!isEncrypted && (arguments["tls-cert"] ?? arguments["tls-key"]) != null)
        {
            throw new UsageException("--tls-cert and --tls-key need --tls-ca");
        }
        if (!isEncrypted && arguments["token-file"] != null && !address.IsLoopback)
        {
            throw new UsageException("a token is sent over TLS only, or to this machine");
        }
        // .NET Core 3 needs this switch to speak HTTP/2 without TLS. Clear text never goes through a proxy.
        AppContext.SetSwitch("System.Net.Http.SocketsHttpHandler.Http2UnencryptedSupport", true);
        var handler = new SocketsHttpHandler { UseProxy = isEncrypted };
        try
        {
            if (isEncrypted)
            {
                handler.SslOptions =
                    Certificates.Options(arguments["tls-ca"], arguments["tls-cert"], arguments["tls-key"]);
            }
            string token = arguments["token-file"] == null ? null : File.ReadAllText(arguments["token-file"]).Trim();
            return new Endpoint(address, token, handler);
        }
        catch (Exception error) when (
            error is IOException || error is UnauthorizedAccessException || error is CryptographicException)
        {
            throw new UsageException(error.Message);
        }
    }

    public void Dispose()
    {
        Http.Dispose();
    }
}
