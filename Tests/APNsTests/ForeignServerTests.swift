import APNs
import Reactor
import Testbed
import Testing

/// Tests against nghttp2's own server, an independent implementation: it reads our frames, and we read its frames.
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
        // Without a file for the path: 404 with a body of HTML.
        Case([], 404),
        Case(["--early-response"], 404),
        Case(["--no-content-length"], 404),
        Case(["--echo-upload"], 200),
        Case(["--echo-upload", "--max-concurrent-streams=7"], 200),
        // Windows of 255 bytes: each body is sent in pieces.
        Case(["--echo-upload", "--window-bits=8"], 200),
        Case(["--echo-upload", "--padding=200"], 200),
        Case(["--echo-upload", "--trailer=x-end: yes"], 200),
        Case(["--echo-upload", "--header-table-size=0", "--encoder-header-table-size=0"], 200),
    ])
    func everyPushIsAnswered(_ given: Case) throws {
        let server = try Nghttpd.start(given.options)
        defer { server.kill() }
        let client = try ForeignClient(port: server.port)
        defer { client.pool.close() }
        client.begin(total: 1_500)
        #expect(client.turn(until: { client.recorder.answers == 1_500 }))
        #expect(client.recorder.outcomes.values.allSatisfy { $0.map(\.status) == [given.status] })
        // The server takes a moment to listen; then one connection carries all pushes.
        #expect(client.recorder.closeCauses.allSatisfy { $0 == .connectFailed })
    }

    /// Broadcasts between the pushes, with a server that keeps a header table and with one that keeps none.
    @Test(arguments: [["--echo-upload"], ["--echo-upload", "--header-table-size=0", "--encoder-header-table-size=0"]])
    func broadcastsAreAnsweredBetweenPushes(_ options: [String]) throws {
        let server = try Nghttpd.start(options)
        defer { server.kill() }
        let client = try ForeignClient(port: server.port, channel: "dHN0LXNyY2gtY2hubA==")
        defer { client.pool.close() }
        client.begin(total: 1_500)
        #expect(client.turn(until: { client.recorder.answers == 1_500 }))
        #expect(client.recorder.outcomes.values.allSatisfy { $0.map(\.status) == [200] })
        #expect(client.recorder.closeCauses.allSatisfy { $0 == .connectFailed })
    }

    /// The server dies in the middle: each push in flight gets one outcome, and a new server gets the rest.
    @Test func serverThatDies() throws {
        var server = try Nghttpd.start(["--echo-upload"])
        defer { server.kill() }
        let client = try ForeignClient(port: server.port)
        defer { client.pool.close() }
        client.begin(total: 6_000)
        #expect(client.turn(until: { client.recorder.answers >= 1_000 }))
        server.kill()
        #expect(client.turn(until: { client.recorder.closeCauses.contains(.connectionLost) }))
        server = try Nghttpd.start(["--echo-upload"], port: server.port)
        #expect(client.turn(until: { client.recorder.answers == 6_000 }))
        #expect(client.recorder.answeredOnce == 6_000)
        let lost = client.recorder.count(.ambiguous) + client.recorder.count(.notProcessed)
        #expect(lost <= 1_000)
        #expect(client.recorder.count(.answered) == 6_000 - lost)
    }
}

/// Against Go's HTTP/2 server, as Caddy runs it. It answers without having read a body, and ends its connections in two steps.
@Suite(.enabled(if: Caddy.path != nil, "caddy is not installed"), .ownThread) struct GoServerTests {
    @Test func everyPushIsAnsweredAsTheServerMeantIt() throws {
        let server = try Caddy.start()
        defer { server.kill() }
        let client = try ForeignClient(port: server.port)
        defer { client.pool.close() }
        client.begin(total: 3_200)
        #expect(client.turn(until: { client.recorder.answers == 3_200 }))
        for (tag, outcomes) in client.recorder.outcomes {
            let outcome = try #require(outcomes.first)
            switch tag % 16 {
            case 0xD:
                #expect(outcome.disposition == .tokenDead && outcome.status == 410)
                #expect(outcome.timestampMilliseconds == 1_700_000_000_000)
            case 0xB: #expect(outcome.disposition == .rejected && outcome.reason == .badTopic)
            default: #expect(outcome.disposition == .accepted)
            }
        }
        #expect(client.recorder.answeredOnce == 3_200)
        #expect(client.pool.statistics.identifiersChanged == 0)
        #expect(client.recorder.closeCauses.allSatisfy { $0 == .connectFailed })
    }

    /// The server accepts a broadcast only as Apple documents it: method, path and fields, without any field of a push to a device.
    @Test func broadcastsAreAsDocumented() throws {
        let server = try Caddy.start()
        defer { server.kill() }
        let client = try ForeignClient(port: server.port, channel: Caddy.channel)
        defer { client.pool.close() }
        client.begin(total: 3_200)
        #expect(client.turn(until: { client.recorder.answers == 3_200 }))
        for (tag, outcomes) in client.recorder.outcomes where tag.isMultiple(of: 2) {
            #expect(outcomes.map(\.status) == [200])
        }
        #expect(client.recorder.answeredOnce == 3_200)
        // The server returns the `apns-request-id` of each.
        #expect(client.pool.statistics.identifiersChanged == 0)
    }

    /// The server is asked to end under load: it sends GOAWAY, and answers what it has accepted.
    @Test func serverThatEndsInOrder() throws {
        var server = try Caddy.start()
        defer { server.kill() }
        let client = try ForeignClient(port: server.port)
        defer { client.pool.close() }
        client.begin(total: 20_000)
        #expect(client.turn(until: { client.recorder.answers >= 1_000 }))
        server.terminate()
        #expect(client.turn(until: { client.recorder.retirementCauses.contains(.goAway) }))
        server.kill()
        server = try Caddy.start(port: server.port)
        #expect(client.turn(until: { client.recorder.answers == 20_000 }))
        #expect(client.recorder.answeredOnce == 20_000)
        // The server was killed while it drained, so it may not have answered the pushes of one connection.
        #expect(client.recorder.count(.answered) >= 19_000)
    }
}

private enum Nghttpd {
    static let path = ForeignProcess.find(["/usr/sbin/nghttpd", "/usr/bin/nghttpd", "/usr/local/bin/nghttpd"])

    static func start(_ options: [String], port wanted: UInt16? = nil) throws -> ForeignProcess {
        let files = try Shared.files.get()
        let path = try #require(Nghttpd.path)
        let port = if let wanted { wanted } else { try Listener.unusedLoopbackPort() }
        return try ForeignProcess(
            port: port,
            [path, "--address=127.0.0.1", "--htdocs=\(files.directory)"] + options
                + [String(port), files.keyFile, files.certificateFile]
        )
    }
}

private enum Caddy {
    static let path = ForeignProcess.find(["/usr/bin/caddy", "/usr/local/bin/caddy"])
    static let channel = "dHN0LXNyY2gtY2hubA=="

    /// Tokens that end in `d` are dead, those that end in `b` are refused, and all others are valid.
    static func start(port wanted: UInt16? = nil) throws -> ForeignProcess {
        let files = try Shared.files.get()
        let path = try #require(Caddy.path)
        let port = if let wanted { wanted } else { try Listener.unusedLoopbackPort() }
        let configuration = "\(files.directory)/Caddyfile-\(port)"
        let text = """
            {
                admin off
                auto_https off
                grace_period 5s
            }
            https://localhost:\(port) {
                bind 127.0.0.1
                tls \(files.certificateFile) \(files.keyFile)
                @broadcast {
                    method POST
                    path /4/broadcasts/apps/com.example.scores
                    header apns-channel-id \(channel)
                    header apns-push-type liveactivity
                    header apns-priority 10
                    header apns-expiration 0
                    header authorization "bearer *"
                    header apns-request-id *
                    header !apns-topic
                    header !apns-id
                }
                handle @broadcast {
                    header apns-request-id {http.request.header.apns-request-id}
                    respond 200
                }
                @anyBroadcast path /4/*
                respond @anyBroadcast `{"reason":"BadPath"}` 404
                @dead path *d
                @refused path *b
                @device path /3/*
                header @device apns-id {http.request.header.apns-id}
                respond @dead `{"reason":"Unregistered","timestamp":1700000000000}` 410
                respond @refused `{"reason":"BadTopic"}` 400
                respond 200
            }
            """
        try writeFile(configuration, text, mode: 0o600)
        // Caddy stores its last configuration and its state in its user's home.
        return try ForeignProcess(
            port: port,
            [
                "/usr/bin/env", "XDG_CONFIG_HOME=\(files.directory)", "XDG_DATA_HOME=\(files.directory)",
                path, "run", "--adapter", "caddyfile", "--config", configuration,
            ]
        )
    }
}
