// Streams from ADDRESS and prints the text; a line on standard input cancels the stream. HOW "leave" destroys
// it after its first chunk. An error's code is the last line.
#include <iostream>
#include <string>
#include <thread>

#include "outrider/client.h"

int main(int, char** argv) {
    const outrider::Client client({argv[1]});
    outrider::v1::StreamGenerateRequest request;
    request.mutable_prompt()->set_text("def quicksort");
    outrider::v1::Chunk chunk;
    std::string line;
    if (argv[2] == std::string("leave")) {
        client.Generate(request).Read(&chunk);
        std::cout << chunk.text() << std::flush;
        std::getline(std::cin, line);
        return 0;
    }
    outrider::Stream stream = client.Generate(request);
    std::thread canceller([&] {
        std::getline(std::cin, line);
        stream.Cancel();
    });
    try {
        while (stream.Read(&chunk))
            std::cout << chunk.text() << std::flush;
    } catch (const outrider::Error& error) {
        std::cout << '\n' << error.code << std::endl;
    }
    canceller.join();
}
