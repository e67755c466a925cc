import APNs
import Reactor
import Testbed
import Testing

/// Tests with nghttpd, which is nghttp2's server and shares no code with our client.
@Suite(.enabled(if: Nghttpd.path != nil, "nghttpd is not installed"), .ownThread) struct ForeignServerTests {
    struct Case: Sendable, CustomTestStringConvertible {
        let options: [String]
        let status: UInt16
        var testDescription: String { options.joined(separator: " ") }

        init(_ options: [String], _ status: UInt16) {
            self.options = options
            self.status = status
        }
    }

    @Test(arguments: [
        // No file has the path of a push, so nghttpd responds with 404 and a body of HTML.
        Case([], 404),
        Case(["--early-response"], 404),
        Case(["--no-content-length"], 404),
        Case(["--echo-upload"], 200),
        Case(["--echo-upload", "--max-concurrent-streams=7"], 200),
        // With windows of 255 bytes, each body is sent in pieces.
        Case(["--echo-upload", "--window-bits=8"], 200),
        Case(["--echo-upload", "--padding=200"], 200),
        Case(["--echo-upload", "--trailer=x-end: yes"], 200),
        Case(["--echo-upload", "--header-table-size=0", "--encoder-header-table-size=0"], 200),
    ])
    func `Every push gets a response`(_ given: Case) throws {
        let server = try Nghttpd.start(given.options)
        defer { server.kill() }
        let client = try ForeignServerClient(port: server.port, refusalsMax: 1_000)
        defer { client.pool.close() }
        client.begin(totalCount: 900)
        #expect(client.runLoop(until: { client.recorder.responseCount == 900 }))
        #expect(client.recorder.responsesByTag.values.allSatisfy { $0.map(\.status) == [given.status] })
        // Before the server listens, connections fail. Then one connection carries all pushes, so connections
        // have no other cause to close.
        #expect(client.recorder.closeCauses.allSatisfy { $0 == .connectFailed })
    }

    /// Sends broadcasts between pushes. In the first case the server keeps a header table, in the second case
    /// it keeps none.
    @Test(arguments: [["--echo-upload"], ["--echo-upload", "--header-table-size=0", "--encoder-header-table-size=0"]])
    func `Broadcasts between pushes get their responses`(_ options: [String]) throws {
        let server = try Nghttpd.start(options)
        defer { server.kill() }
        let client = try ForeignServerClient(port: server.port, channel: "dHN0LXNyY2gtY2hubA==")
        defer { client.pool.close() }
        client.begin(totalCount: 1_500)
        #expect(client.runLoop(until: { client.recorder.responseCount == 1_500 }))
        #expect(client.recorder.responsesByTag.values.allSatisfy { $0.map(\.status) == [200] })
        #expect(client.recorder.closeCauses.allSatisfy { $0 == .connectFailed })
    }

    /// The server is killed under load. Each push in flight gets one outcome, and a new server gets the
    /// remaining pushes.
    @Test func `Each push gets one outcome when a server dies`() throws {
        var server = try Nghttpd.start(["--echo-upload"])
        defer { server.kill() }
        let client = try ForeignServerClient(port: server.port)
        defer { client.pool.close() }
        client.begin(totalCount: 6_000)
        #expect(client.runLoop(until: { client.recorder.responseCount >= 1_000 }))
        server.kill()
        #expect(client.runLoop(until: { client.recorder.closeCauses.contains(.connectionLost) }))
        server = try Nghttpd.start(["--echo-upload"], port: server.port)
        #expect(client.runLoop(until: { client.recorder.responseCount == 6_000 }))
        #expect(client.recorder.singleResponseCount == 6_000)
        let lostCount = client.recorder.count(.ambiguous) + client.recorder.count(.notProcessed)
        #expect(lostCount <= 1_000)
        #expect(client.recorder.count(.responded) == 6_000 - lostCount)
    }
}

/// Tests with Go's HTTP/2 server, as Caddy runs it. This server may respond before it has read the body, and
/// closes a connection with two GOAWAYs.
@Suite(.enabled(if: Caddy.path != nil, "caddy is not installed"), .ownThread) struct GoServerTests {
    @Test func `Every push gets the response that the server meant`() throws {
        let server = try Caddy.start()
        defer { server.kill() }
        let client = try ForeignServerClient(port: server.port)
        defer { client.pool.close() }
        client.begin(totalCount: 3_200)
        #expect(client.runLoop(until: { client.recorder.responseCount == 3_200 }))
        for (tag, responses) in client.recorder.responsesByTag {
            let response = try #require(responses.first)
            switch tag % 16 {
            case 0xD:
                #expect(response.disposition == .tokenDead && response.status == 410)
                #expect(response.invalidAtWallMilliseconds == 1_700_000_000_000)
            case 0xB: #expect(response.disposition == .rejected && response.reason == .badPriority)
            default: #expect(response.disposition == .accepted)
            }
        }
        #expect(client.recorder.singleResponseCount == 3_200)
        #expect(client.pool.statistics.apnsIdMismatchCount == 0)
        #expect(client.recorder.closeCauses.allSatisfy { $0 == .connectFailed })
    }

    /// Caddy accepts a broadcast only with the method, path and fields that Apple documents, and without the
    /// fields of a push to a device.
    @Test func `Broadcasts are as documented`() throws {
        let server = try Caddy.start()
        defer { server.kill() }
        let client = try ForeignServerClient(port: server.port, channel: Caddy.channel)
        defer { client.pool.close() }
        client.begin(totalCount: 3_200)
        #expect(client.runLoop(until: { client.recorder.responseCount == 3_200 }))
        for (tag, responses) in client.recorder.responsesByTag where tag.isMultiple(of: 2) {
            #expect(responses.map(\.status) == [200])
        }
        #expect(client.recorder.singleResponseCount == 3_200)
        // Caddy returns each broadcast's `apns-request-id`, so no id counts as changed.
        #expect(client.pool.statistics.apnsIdMismatchCount == 0)
    }

    /// Caddy gets SIGTERM under load: it sends GOAWAY and responds to the requests that it has accepted.
    @Test func `Each push gets one outcome when a server shuts down`() throws {
        var server = try Caddy.start()
        defer { server.kill() }
        let client = try ForeignServerClient(port: server.port)
        defer { client.pool.close() }
        client.begin(totalCount: 20_000)
        #expect(client.runLoop(until: { client.recorder.responseCount >= 1_000 }))
        server.terminate()
        #expect(client.runLoop(until: { client.recorder.retirementCauses.contains(.goAway) }))
        server.kill()
        server = try Caddy.start(port: server.port)
        #expect(client.runLoop(until: { client.recorder.responseCount == 20_000 }))
        #expect(client.recorder.singleResponseCount == 20_000)
        // The test kills Caddy while it drains, so the pushes of one connection may have no response.
        #expect(client.recorder.count(.responded) >= 19_000)
    }
}
