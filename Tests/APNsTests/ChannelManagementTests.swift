import APNsSimulator
import Documents
import Foundation
import Testbed
import Testing

@testable import APNs
@testable import Reactor

/// The management client against the simulator's management service, over TLS.
@Suite(.ownThread) struct ChannelManagementTests {
    private static func run(
        _ adjust: @escaping (inout SimulatorConfiguration) -> Void = { _ in },
        timeoutMilliseconds: Int64 = 10_000,
        _ body: (Simulator, ChannelManagementClient) async throws -> Void
    ) async throws {
        try await SimulatorFixture.run(adjust) { fixture in
            let management = try Self.makeClient(
                port: fixture.simulator.managementPort,
                timeoutMilliseconds: timeoutMilliseconds
            )
            try await body(fixture.simulator, management)
        }
    }

    private static func makeClient(
        app: String = SimulatorFixture.app,
        port: UInt16,
        timeoutMilliseconds: Int64 = 10_000
    ) throws -> ChannelManagementClient {
        let files = try TestCredentials.files.get()
        return ChannelManagementClient(
            bundleId: app,
            endpoint: ManagementEndpoint(
                host: "localhost",
                port: port,
                tls: try TLSContext.client(caFile: files.caFile, applicationProtocols: ["h2"]),
                timeoutMilliseconds: timeoutMilliseconds
            ),
            tokenSource: try ProviderTokenSource(
                key: try SigningKey(path: files.signingKeyFile),
                keyId: "ABC123DEFG",
                teamId: "DEF123GHIJ"
            ),
            unixSeconds: { Int64(time(nil)) }
        )
    }

    /// Returns the error that the body throws; nil if it throws none.
    private static func thrownError(_ body: () async throws(ChannelError) -> Void) async -> ChannelError? {
        do {
            try await body()
            return nil
        } catch {
            return error
        }
    }

    @Test func `A channel is created, read, listed and deleted`() async throws {
        try await Self.run { _, management in
            let newestChannel = try await management.create(storesNewestMessage: true)
            let plainChannel = try await management.create(storesNewestMessage: false)
            #expect(try await management.list() == [newestChannel, plainChannel])
            #expect(
                try await management.read(newestChannel) == .init(identifier: newestChannel, storesNewestMessage: true)
            )
            #expect(
                try await management.read(plainChannel) == .init(identifier: plainChannel, storesNewestMessage: false)
            )
            #expect(try await management.delete(newestChannel))
            #expect(try await management.delete(newestChannel) == false)
            #expect(try await management.delete("invalid id") == false)
            #expect(try await management.list() == [plainChannel])
            let error = await Self.thrownError { () throws(ChannelError) in _ = try await management.read(newestChannel)
            }
            #expect(error?.cause == .refused(.channelNotRegistered) && error?.isTransient == false)
        }
    }

    /// The list is larger than the connection's first window, and longer than one TLS record.
    @Test func `Ten thousand channels are listed`() async throws {
        try await Self.run { simulator, management in
            #expect(try await management.list() == [])
            let createdChannels = try await simulator.withDevices {
                (devices, nowMilliseconds) throws(DeviceModel.Fault) in
                for _ in 0..<10_000 {
                    _ = try devices.createChannel(
                        app: SimulatorFixture.app,
                        storesNewestMessage: true,
                        nowMilliseconds: nowMilliseconds
                    )
                }
                return try devices.channelIdentifiers(app: SimulatorFixture.app)
            }
            #expect(try await management.list() == createdChannels)
            let error = await Self.thrownError { () throws(ChannelError) in
                _ = try await management.create(storesNewestMessage: true)
            }
            #expect(error?.cause == .refused(.cannotCreateChannelConfig) && error?.isTransient == false)
            #expect(error?.detail.contains("causeway channels") == true)
        }
    }

    @Test func `The error for an app without the capability says what to do`() async throws {
        try await Self.run { simulator, management in
            try await simulator.withDevices { (devices, nowMilliseconds) throws(DeviceModel.Fault) in
                try devices.setBroadcastCapability(false, app: SimulatorFixture.app, nowMilliseconds: nowMilliseconds)
            }
            let error = await Self.thrownError { () throws(ChannelError) in _ = try await management.list() }
            #expect(error?.cause == .refused(.featureNotEnabled) && error?.status == 400)
            #expect(error?.detail.contains("developer.apple.com") == true)
        }
    }

    @Test(arguments: [
        (SimulatedResponse.tooManyRequests, APNs.Reason.tooManyRequests, true),
        (.serviceUnavailable, .serviceUnavailable, true), (.internalServerError, .internalServerError, true),
        (.invalidProviderToken, .invalidProviderToken, false), (.badRequestParams, .badRequestParams, false),
    ])
    func `The error about a refusal has APNs' reason and status`(
        _ row: (sent: SimulatedResponse, read: APNs.Reason, isTransient: Bool)
    )
        async throws
    {
        try await Self.run { simulator, management in
            var faults = Faults()
            faults.reasonShares = [row.sent: 1]
            try await simulator.setFaults(faults, of: .management)
            let error = await Self.thrownError { () throws(ChannelError) in
                _ = try await management.create(storesNewestMessage: true)
            }
            // After a 5xx other than 503, APNs may have created the channel.
            #expect(error?.cause == (row.sent == .internalServerError ? .ambiguous : .refused(row.read)))
            #expect(error?.isTransient == row.isTransient)
            #expect(error?.status == row.sent.status)
            let listError = await Self.thrownError { () throws(ChannelError) in _ = try await management.list() }
            #expect(listError?.cause == .refused(row.read) && listError?.isTransient == row.isTransient)
        }
    }

    /// The first address takes connections, but never responds, as behind a firewall that drops packets.
    @Test func `A silent address leaves time for the next one`() async throws {
        try await Self.run { simulator, _ in
            let silentSocket = try ListeningSocket(address: .loopback(port: 0), backlog: 8)
            defer { withExtendedLifetime(silentSocket) {} }
            let addresses = [silentSocket.address, SocketAddress.loopback(port: simulator.managementPort)]
            let endpoint = ManagementEndpoint(
                host: "localhost",
                port: simulator.managementPort,
                tls: try TLSContext.client(
                    caFile: TestCredentials.files.get().caFile,
                    applicationProtocols: ["h2"]
                ),
                timeoutMilliseconds: 12_000
            )
            let result = try await onOwnThread {
                let exchange = try ManagementExchange(
                    ManagementRequest(method: .get, path: "/1/apps/\(SimulatorFixture.app)/all-channels"),
                    to: endpoint,
                    authorization: "bearer none",
                    cancellationWakeup: Wakeup()
                )
                exchange.loop.hostLookup = { _, _ in .success(addresses) }
                return exchange.run()
            }
            #expect(try result.get().status == 403)
        }
    }

    /// APNs may have carried out a request that was sent and got no response. It has not carried out a request
    /// that was never sent, or whose stream was refused.
    @Test func `An error is ambiguous only if the request may have been carried out`() async throws {
        try await Self.run(timeoutMilliseconds: 300) { simulator, management in
            var noResponseFaults = Faults()
            noResponseFaults.noResponseShare = 1
            try await simulator.setFaults(noResponseFaults, of: .management)
            let noResponseError = await Self.thrownError { () throws(ChannelError) in
                _ = try await management.create(storesNewestMessage: true)
            }
            #expect(noResponseError?.cause == .ambiguous)
            var resetFaults = Faults()
            resetFaults.resetShare = 1
            try await simulator.setFaults(resetFaults, of: .management)
            let resetError = await Self.thrownError { () throws(ChannelError) in
                _ = try await management.create(storesNewestMessage: true)
            }
            #expect(resetError?.cause == .ambiguous)
            var refusedFaults = Faults()
            refusedFaults.refusedShare = 1
            try await simulator.setFaults(refusedFaults, of: .management)
            let refusedError = await Self.thrownError { () throws(ChannelError) in
                _ = try await management.create(storesNewestMessage: true)
            }
            #expect(refusedError?.cause == .notProcessed)
            try await simulator.setFaults(Faults(), of: .management)
            // Both ambiguous requests were carried out: their channels exist.
            #expect(try await management.list().count == 2)
        }
    }

    @Test func `A task that is cancelled waits for no response`() async throws {
        try await Self.run(timeoutMilliseconds: 600_000) { simulator, management in
            var noResponseFaults = Faults()
            noResponseFaults.noResponseShare = 1
            try await simulator.setFaults(noResponseFaults, of: .management)
            let task = Task { await Self.thrownError { () throws(ChannelError) in _ = try await management.list() } }
            try await eventuallyInTask("a request") { try await simulator.statistics().managementRequestCount > 0 }
            task.cancel()
            #expect(await task.value?.cause == .ambiguous)
        }
    }

    @Test func `A request to a service that does not listen counts as not processed`() async throws {
        let port = try Listener.findUnusedLoopbackPort()
        let management = try Self.makeClient(port: port)
        let error = await Self.thrownError { () throws(ChannelError) in
            _ = try await management.create(storesNewestMessage: true)
        }
        #expect(error?.cause == .notProcessed && error?.isTransient == true)
        #expect(error?.detail.contains("localhost:\(port)") == true)
    }

    @Test func `A request for an app that APNs does not know is refused`() async throws {
        try await SimulatorFixture.run { fixture in
            let otherClient = try Self.makeClient(app: "com.example.none", port: fixture.simulator.managementPort)
            let error = await Self.thrownError { () throws(ChannelError) in _ = try await otherClient.list() }
            #expect(error?.cause == .refused(.topicDisallowed))
        }
    }

    @Test func `Simultaneous requests all get their responses`() async throws {
        try await Self.run { _, management in
            let createdChannels = try await withThrowingTaskGroup(of: String.self) { group in
                for _ in 0..<8 { group.addTask { try await management.create(storesNewestMessage: true) } }
                return try await group.reduce(into: Set<String>()) { $0.insert($1) }
            }
            #expect(createdChannels.count == 8)
            #expect(try await Set(management.list()) == createdChannels)
        }
    }
}

/// The headers and bodies of channel management, without a connection.
struct ManagementResponseTests {
    private func decodeBlock(_ bytes: [UInt8]) throws -> [(name: String, value: String)] {
        try bytes.withUnsafeBytes { try ManagementHeaderBlock.decode($0) }
    }

    @Test func `A header block is read with and without Huffman code`() throws {
        // The first two blocks are examples of RFC 7541, appendix C: `:status: 302` plain, and in Huffman code. Their
        // name is an index into the static table.
        #expect(try decodeBlock([0x48, 0x03, 0x33, 0x30, 0x32]).map { [$0.name, $0.value] } == [[":status", "302"]])
        #expect(try decodeBlock([0x48, 0x82, 0x64, 0x02]).map { [$0.name, $0.value] } == [[":status", "302"]])
        #expect(try decodeBlock([0x20, 0x89]).map { [$0.name, $0.value] } == [[":status", "204"]])
        let largeBlock = ManagementHeaderBlock.encode([("apns-channel-id", String(repeating: "A", count: 200))])
        #expect(try decodeBlock(largeBlock).map { $0.value.count } == [200])
    }

    @Test(
        arguments: [
            // An index beyond the static table; a table of 4,096 bytes, which we do not allow.
            [0xBE], [0x3F, 0xE1, 0x1F],
            // A missing name; a value that is shorter than its length; an invalid Huffman code.
            [0x00], [0x48, 0x05, 0x33], [0x48, 0x81, 0x00],
            // An integer that is too large.
            [0x7F, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x01],
        ] as [[UInt8]]
    )
    func `An invalid header block is refused`(_ bytes: [UInt8]) {
        #expect(throws: ConnectionFault.self) { _ = try decodeBlock(bytes) }
    }

    @Test func `A creation has the body that Apple documents`() throws {
        let body = try StableJSON.text(ManagementBody.Channel(storagePolicy: 1, pushType: "LiveActivity"))
        #expect(body == #"{"message-storage-policy":1,"push-type":"LiveActivity"}"#)
    }

    @Test func `A body is read even if it has unknown fields`() {
        func parseChannels(_ text: String) -> [String]? {
            StableJSON.decode(ManagementBody.ChannelList.self, text.utf8)?.channels
        }
        #expect(parseChannels(#"{"channels":[]}"#) == [])
        #expect(
            parseChannels(#" { "next" : {"channels":["x"]} , "channels" : [ "a+b=" , "c\/d" ] } "#) == ["a+b=", "c/d"]
        )
        for text in [
            "", "[]", "{}", #"{"channels":"#, #"{"channels":{}}"#, #"{"channels":["a""#, #"{"channels":[1]}"#,
        ] {
            #expect(parseChannels(text) == nil, "\(text)")
        }
        func parseStoragePolicy(_ text: String) -> Int? {
            StableJSON.decode(ManagementBody.Channel.self, text.utf8)?.storagePolicy
        }
        #expect(parseStoragePolicy(#"{"push-type":"LiveActivity","message-storage-policy":1}"#) == 1)
        #expect(parseStoragePolicy(#"{"message-storage-policy": 0 }"#) == 0)
        #expect(
            parseStoragePolicy(#"{"message-storage-policy":"1"}"#) == nil
                && parseStoragePolicy(#"{"message-storage-policy":"#) == nil
        )
    }
}

/// The advice that an operator gets about an error reason of APNs.
struct ReasonAdviceTests {
    /// Only the reasons that concern device tokens, and an empty reason, have no advice.
    @Test(arguments: (BroadcastTests.channelOnlyResponses + BroadcastTests.sharedResponses).map(\.reason))
    func `Every reason about channels has advice for the operator`(_ text: String) {
        let reason = Array(text.utf8).withUnsafeBytes { APNs.Reason(text: $0) }
        let concernsDevices = ["", "Unregistered", "BadDeviceToken", "DeviceTokenNotForTopic"].contains(text)
        #expect((reason.advice.utf8CodeUnitCount == 0) == concernsDevices)
    }

    /// If an operator must first correct something, a retry before that only fails again.
    @Test func `A retry helps only if no operator must act first`() {
        func retryHelps(_ status: UInt16, _ reason: APNs.Reason) -> Bool {
            ResponseDisposition(completion: .responded, status: status, reason: reason).retryHelps
        }
        for reason in APNs.Reason.allCases {
            let expected: Bool =
                switch reason {
                case .tooManyRequests, .tooManyProviderTokenUpdates, .expiredProviderToken, .unrelatedKeyIdInToken,
                    .internalServerError, .serviceUnavailable, .shutdown, .idleTimeout:
                    true
                default: false
                }
            #expect(retryHelps(max(400, reason.documentedStatus), reason) == expected, "\(reason)")
        }
        #expect(retryHelps(500, .unknown) && retryHelps(429, .absent) && !retryHelps(418, .unknown))
    }
}
