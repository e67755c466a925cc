import Glibc

/// `causeway-bench`: measures the cost of a push, from the call to the response.
let usage = """
    usage: causeway-bench send --port P --ca FILE [options]     send pushes, print one line of JSON
           causeway-bench serve [--latency MS] [--connection-window BYTES]
                                                                an APNs simulator for them, until standard input ends
           causeway-bench compare [--count N] [--rounds N]      send and h2load in turn against the same simulator

    send:
      --host H                numeric address or name (127.0.0.1)
      --port P, --ca FILE     the server's port, and the authority to trust, PEM
      --server-name NAME      that its certificate is for (localhost)
      --connections N         the most connections, 1 to 16 (1)
      --in-flight N           pushes in flight on each, 1 to 4096 (1000)
      --count N               pushes (200000)
      --rate N                pushes a second that are wanted; 0: as many as it takes (0)
      --latency-model MS      a round trip of so long between client and server, made by a relay process (0)
      --turn-spacing US       the least time between two turns of the loop, as the worker's lanes have it (4000)
      --body-bytes N          of each push (360)
      --tokens FILE           device tokens, one a line, used in turn; without it each push has one of its own
      --key FILE --key-id ID --team-id ID --bundle ID     of the provider token; without a key one is made
    """

let words = CommandLine.arguments.dropFirst(2)
do {
    switch CommandLine.arguments.dropFirst().first {
    case "send": try send(Arguments(words))
    case "relay": try relay(Arguments(words))
    case "serve": try await serve(Arguments(words))
    case "compare": try compare(Arguments(words))
    default:
        print(usage)
        exit(2)
    }
} catch {
    fail("\(error)")
}
