import APNs
import Foundation
import Reactor
import Testbed
import Testing

/// Broadcasts and requests of channel management, as independent servers receive them. They have exactly the fields and
/// bytes that Apple documents.
@Suite(.ownThread) struct ForeignRequestTests {
    private static let channel = "dHN0LXNyY2gtY2hubA=="
    private static let app = "com.example.scores"

    private static func makeManagement(port: UInt16) throws -> ChannelManagementClient {
        let files = try TestCredentials.files.get()
        return ChannelManagementClient(
            bundleId: app,
            endpoint: ManagementEndpoint(
                host: "localhost",
                port: port,
                tls: try TLSContext.client(caFile: files.caFile, applicationProtocols: ["h2"])
            ),
            tokenSource: try TestCredentials.makeTokenSource(),
            unixSeconds: { Int64(time(nil)) }
        )
    }

    /// An nghttpd with its log. It serves a directory of its own, with a file for each path of channel management.
    private final class RecordingServer {
        let server: ForeignProcess
        private let log: String

        init() throws {
            let directory = try TestCredentials.files.get().directory + "/\(UUID().uuidString)"
            let documentRoot = directory + "/1/apps/\(ForeignRequestTests.app)"
            try FileManager.default.createDirectory(atPath: documentRoot, withIntermediateDirectories: true)
            try writeFile(
                documentRoot + "/all-channels",
                #"{"channels":["\#(ForeignRequestTests.channel)"]}"#,
                mode: 0o600
            )
            try writeFile(documentRoot + "/channels", #"{"message-storage-policy":0}"#, mode: 0o600)
            log = directory + "/log"
            server = try Nghttpd.start(["--verbose", "--hexdump"], documentRoot: directory, log: log)
        }

        deinit { server.kill() }

        /// Waits until the log has this many requests, and returns them.
        func requests(_ count: Int) throws -> [ReceivedRequest] {
            try pollUntilPresent("\(count) requests in the server's log") {
                let requests = ReceivedRequest.read(try String(contentsOfFile: log, encoding: .utf8))
                return requests.count >= count ? requests : nil
            }
        }
    }

    /// A server takes a moment to listen, and does not report it, so the test asks until it gets a response.
    private static func awaitResponses(_ management: ChannelManagementClient) async throws {
        try await eventuallyInTask("a server that listens") { (try? await management.list()) != nil }
    }

    /// Expects the given fields and one provider token, whose value differs in each run.
    private func expectFields(_ request: ReceivedRequest, _ expected: [[String]]) {
        let isToken = request.fields.map { $0[0] == "authorization" && $0[1].hasPrefix("bearer ey") }
        #expect(isToken.count { $0 } == 1)
        #expect(zip(request.fields, isToken).map { $1 ? ["authorization", "bearer"] : $0 } == expected)
    }

    @Test(.enabled(if: Nghttpd.path != nil, "nghttpd is not installed"))
    func `Broadcasts arrive as documented`() throws {
        let recording = try RecordingServer()
        let client = try ForeignServerClient(port: recording.server.port)
        defer { client.pool.close() }
        client.begin(totalCount: 0)
        let state = String(repeating: "0123456789abcdef,", count: 296) + "01234567890"
        let largestBody = Array(
            #"{"aps":{"content-state":{"text":"\#(state)"},"event":"update","timestamp":1790000000}}"#.utf8
        )
        #expect(largestBody.count == 5_120, "as much as a broadcast may have")
        let endBody = Array(#"{"aps":{"content-state":{},"event":"end","timestamp":1790000001}}"#.utf8)
        #expect(
            client.broadcast(
                largestBody,
                to: Self.channel,
                priority: 10,
                expirationSeconds: 1_790_000_060,
                identifier: (1, 2)
            )
        )
        #expect(client.runLoop(until: { client.recorder.responseCount == 1 }))
        #expect(client.broadcast(endBody, to: Self.channel, priority: 5, expirationSeconds: 0, identifier: (1, 3)))
        #expect(client.runLoop(until: { client.recorder.responseCount == 2 }))

        let requests = try recording.requests(2)
        #expect(requests.map(\.body) == [largestBody, endBody])
        for (request, (priority, expiration, identifier)) in zip(
            requests,
            [("10", "1790000060", "2"), ("5", "0", "3")]
        ) {
            expectFields(
                request,
                [
                    [":method", "POST"], [":scheme", "https"], [":authority", "localhost:\(recording.server.port)"],
                    [":path", "/4/broadcasts/apps/\(Self.app)"], ["authorization", "bearer"],
                    ["apns-push-type", "liveactivity"], ["apns-channel-id", Self.channel],
                    ["apns-priority", priority], ["apns-expiration", expiration],
                    ["apns-request-id", "00000000-0000-0001-0000-00000000000\(identifier)"],
                ]
            )
        }
    }

    @Test(.enabled(if: Nghttpd.path != nil, "nghttpd is not installed"))
    func `Management requests arrive as documented`() async throws {
        let recording = try RecordingServer()
        let management = try Self.makeManagement(port: recording.server.port)
        try await Self.awaitResponses(management)
        let requestCountBefore = try recording.requests(1).count
        #expect(try await management.list() == [Self.channel])
        #expect(try await management.read(Self.channel).storesNewestMessage == false)
        // nghttpd responds to every method with a file, so no creation and no deletion gets the response that Apple
        // documents.
        for storesNewestMessage in [true, false] {
            await #expect(throws: ChannelError.self) {
                _ = try await management.create(storesNewestMessage: storesNewestMessage)
            }
        }
        await #expect(throws: ChannelError.self) { try await management.delete(Self.channel) }

        let requests = try recording.requests(requestCountBefore + 5).dropFirst(requestCountBefore)
        let channels = "/1/apps/\(Self.app)/channels"
        func fields(_ method: String, _ path: String, _ others: [String]...) -> [[String]] {
            [
                [":method", method], [":scheme", "https"], [":authority", "localhost:\(recording.server.port)"],
                [":path", path], ["authorization", "bearer"],
            ] + others
        }
        let (json, channel) = (["content-type", "application/json"], ["apns-channel-id", Self.channel])
        let expected: [([[String]], String)] = [
            (fields("GET", "/1/apps/\(Self.app)/all-channels"), ""),
            (fields("GET", channels, channel), ""),
            (fields("POST", channels, json), #"{"message-storage-policy":1,"push-type":"LiveActivity"}"#),
            (fields("POST", channels, json), #"{"message-storage-policy":0,"push-type":"LiveActivity"}"#),
            (fields("DELETE", channels, channel), ""),
        ]
        for (request, (fields, body)) in zip(requests, expected) {
            expectFields(request, fields)
            #expect(String(decoding: request.body, as: UTF8.self) == body)
        }
        #expect(requests.count == expected.count)
    }

    /// Caddy, on Go's HTTP/2 server, responds to a request as Apple documents only if the method, the path and the
    /// fields are as documented, and for a creation also the body.
    @Test(.enabled(if: Caddy.path != nil, "caddy is not installed"))
    func `Management requests get the documented responses`() async throws {
        let server = try Caddy.start()
        defer { server.kill() }
        let management = try Self.makeManagement(port: server.port)
        try await Self.awaitResponses(management)
        #expect(try await management.create(storesNewestMessage: true) == Caddy.channel)
        #expect(try await management.list() == [Caddy.channel])
        #expect(try await management.read(Caddy.channel).storesNewestMessage)
        #expect(try await management.delete(Caddy.channel))
        let error = await #expect(throws: ChannelError.self) {
            _ = try await management.create(storesNewestMessage: false)
        }
        #expect(error?.cause == .refused(.badPath) && error?.status == 404)
    }
}
