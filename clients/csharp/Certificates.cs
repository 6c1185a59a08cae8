using System;
using System.Collections.Generic;
using System.IO;
using System.Linq;
using System.Net.Security;
using System.Security.Cryptography;
using System.Security.Cryptography.X509Certificates;
using System.Text.RegularExpressions;

/// <summary>TLS with authorities of one's own, and with a certificate of one's own, from files of PEM.</summary>
public static class Certificates
{
    private const string Rsa = "1.2.840.113549.1.1.1";

    /// <summary>Trusts who is certified by `authorities`; shows the certificate, if there is one, with its key.</summary>
    public static SslClientAuthenticationOptions Options(string authorities, string certificate, string key)
    {
        X509Certificate2[] trusted =
            Read(authorities, "CERTIFICATE").Select(bytes => new X509Certificate2(bytes)).ToArray();
        var options = new SslClientAuthenticationOptions
        {
            RemoteCertificateValidationCallback = (sender, shown, chain, errors) =>
                IsTrusted(trusted, shown, chain, errors),
        };
        if ((certificate == null) != (key == null))
        {
            throw new UsageException("--tls-cert and --tls-key go together");
        }
        if (certificate != null)
        {
            options.ClientCertificates = new X509CertificateCollection { ReadOwn(certificate, key) };
        }
        return options;
    }

    /// <summary>Whether all is well but that this machine does not know the authority, which is one of ours.</summary>
    private static bool IsTrusted(
        X509Certificate2[] authorities, X509Certificate shown, X509Chain received, SslPolicyErrors errors)
    {
        return (errors & ~SslPolicyErrors.RemoteCertificateChainErrors) == SslPolicyErrors.None
            && authorities.Any(authority => IsCertified(authority, shown, received));
    }

    private static bool IsCertified(X509Certificate2 authority, X509Certificate shown, X509Chain received)
    {
        using (var chain = new X509Chain())
        {
            chain.ChainPolicy.RevocationMode = X509RevocationMode.NoCheck;
            chain.ChainPolicy.VerificationFlags = X509VerificationFlags.AllowUnknownCertificateAuthority;
            chain.ChainPolicy.ExtraStore.Add(authority); // alone: others may have its name
            chain.ChainPolicy.ExtraStore.AddRange(received.ChainPolicy.ExtraStore); // what the server has sent beside
            bool isValid = chain.Build(new X509Certificate2(shown));
            byte[] root = chain.ChainElements.Cast<X509ChainElement>().Last().Certificate.RawData;
            return isValid && authority.RawData.SequenceEqual(root);
        }
    }

    private static X509Certificate2 ReadOwn(string certificateFile, string keyFile)
    {
        var certificate = new X509Certificate2(Read(certificateFile, "CERTIFICATE").First());
        byte[] key = Read(keyFile, "PRIVATE KEY").First();
        if (certificate.GetKeyAlgorithm() == Rsa)
        {
            RSA rsa = RSA.Create();
            rsa.ImportPkcs8PrivateKey(key, out _);
            return certificate.CopyWithPrivateKey(rsa);
        }
        ECDsa curve = ECDsa.Create();
        curve.ImportPkcs8PrivateKey(key, out _);
        return certificate.CopyWithPrivateKey(curve);
    }

    /// <summary>The blocks of one kind in a file of PEM; there is at least one.</summary>
    private static List<byte[]> Read(string file, string label)
    {
        string block = $"-----BEGIN {label}-----([^-]+)-----END {label}-----";
        List<byte[]> blocks = Regex.Matches(File.ReadAllText(file), block)
            .Cast<Match>()
            .Select(match => Convert.FromBase64String(match.Groups[1].Value))
            .ToList();
        return blocks.Count > 0 ? blocks : throw new UsageException($"{file} has no {label}");
    }
}
