using System;
using System.Collections.Generic;
using System.Globalization;
using System.Linq;
using Outrider.V1;

/// <summary>What is wrong with the command line.</summary>
public sealed class UsageException : Exception
{
    public UsageException(string message) : base(message)
    {
    }
}

/// <summary>The options and the prompt of the command line.</summary>
public sealed class Arguments
{
    public const string Usage =
        "usage: stream [--address HOST:PORT] [--max-tokens N] [--temperature X] [--seed N]\n"
        + "    [--tls-ca FILE [--tls-cert FILE --tls-key FILE]] [--token-file FILE] PROMPT";

    private static readonly string[] Names =
        { "address", "max-tokens", "temperature", "seed", "tls-ca", "tls-cert", "tls-key", "token-file" };

    private readonly Dictionary<string, string> options;
    private readonly string prompt;

    private Arguments(Dictionary<string, string> options, string prompt)
    {
        this.options = options;
        this.prompt = prompt;
    }

    /// <summary>The value of an option, or null.</summary>
    public string this[string name] => options.TryGetValue(name, out string value) ? value : null;

    public static Arguments Read(IEnumerable<string> arguments)
    {
        var options = new Dictionary<string, string>();
        var prompts = new List<string>();
        using (IEnumerator<string> rest = arguments.GetEnumerator())
        {
            while (rest.MoveNext())
            {
                if (!rest.Current.StartsWith("--", StringComparison.Ordinal))
                {
                    prompts.Add(rest.Current);
                    continue;
                }
                string[] option = rest.Current.Substring(2).Split(new[] { '=' }, 2);
                if (!Names.Contains(option[0]))
                {
                    throw new UsageException($"--{option[0]} is no option");
                }
                if (option.Length < 2 && !rest.MoveNext())
                {
                    throw new UsageException($"--{option[0]} needs a value");
                }
                options[option[0]] = option.Length < 2 ? rest.Current : option[1];
            }
        }
        if (prompts.Count != 1)
        {
            throw new UsageException("exactly one prompt is needed");
        }
        return new Arguments(options, prompts[0]);
    }

    /// <summary>What is left out stays unset in the request, so that the server's default holds.</summary>
    public StreamGenerateRequest Request()
    {
        var request = new StreamGenerateRequest
        {
            Prompt = new Prompt { Text = prompt },
            Sampling = new SamplingParameters(),
            Stop = new StopConditions(),
        };
        CultureInfo plain = CultureInfo.InvariantCulture;
        Parse("max-tokens", text => request.Stop.MaxTokens = int.Parse(text, NumberStyles.AllowLeadingSign, plain));
        Parse("temperature", text => request.Sampling.Temperature = double.Parse(text, NumberStyles.Float, plain));
        Parse("seed", text => request.Sampling.Seed = ulong.Parse(text, NumberStyles.None, plain));
        return request;
    }

    private void Parse(string name, Action<string> set)
    {
        if (this[name] == null)
        {
            return;
        }
        try
        {
            set(this[name]);
        }
        catch (Exception error) when (error is FormatException || error is OverflowException)
        {
            throw new UsageException($"--{name} cannot be \"{this[name]}\"");
        }
    }
}
