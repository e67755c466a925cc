import Reactor

/// Asks Sentinels for the primary with the configured name, one after the other, beginning with the one that last gave
/// a correct reply. Only one look-up may run at a time.
///
/// The look-up asks the next Sentinel (steps 1 to 3 of the guidelines for Sentinel clients):
/// - if the Sentinel gives no usable reply
/// - if the server that the Sentinel names gives no usable reply, or is no primary. The role is not checked if the
///   Redis user may not call ROLE.
final class SentinelLookup {
    typealias Completion = (Result<RedisURL.Location, RedisError>) -> Void

    private let loop: EventLoop
    private let configuration: RedisConfiguration
    private let sentinels: RedisURL
    private let primaryName: String
    /// The index of the Sentinel that is asked now or next. It stays after a success, so the next look-up begins with
    /// the same Sentinel.
    private var sentinelIndex = 0
    private var unaskedSentinelCount = 0
    private var failures = LookupFailures()
    private var connection: CommandConnection?
    private var completion: Completion?

    /// Makes a look-up that asks nobody yet.
    ///
    /// - Parameter configuration: in place of a host, its URL has the Sentinels' name for the primary.
    init(loop: EventLoop, configuration: RedisConfiguration, sentinels: RedisURL) {
        self.loop = loop
        self.configuration = configuration
        self.sentinels = sentinels
        if case .host(let name, _) = configuration.url.firstLocation { primaryName = name } else { primaryName = "" }
    }

    /// Begins a look-up.
    ///
    /// - Parameter completion: the loop calls it once, unless the look-up is cancelled.
    func find(_ completion: @escaping Completion) {
        precondition(self.completion == nil, "one look-up at a time")
        self.completion = completion
        unaskedSentinelCount = sentinels.locations.count
        failures = LookupFailures()
        askSentinel()
    }

    func cancel() {
        completion = nil
        connection?.close()
        connection = nil
    }

    private func askSentinel() {
        unaskedSentinelCount -= 1
        let url = sentinels.replacingLocations(with: sentinels.locations[sentinelIndex])
        sendCommand(url, ["SENTINEL", "get-master-addr-by-name", primaryName]) { lookup, reply in
            lookup.handleAddress(reply, from: url.firstLocation)
        }
    }

    private func sendCommand(
        _ url: RedisURL,
        _ command: [String],
        _ handleReply: @escaping (SentinelLookup, Result<RedisValue, RedisError>) -> Void
    ) {
        let connection = CommandConnection(loop: loop, url: url, configuration: configuration)
        self.connection = connection
        connection.send(command) { [weak self] reply in
            guard let self, completion != nil else { return }
            connection.close()
            handleReply(self, reply)
        }
    }

    /// Handles a Sentinel's reply: checks the role of the server that the reply names, or asks the next Sentinel.
    private func handleAddress(_ reply: Result<RedisValue, RedisError>, from sentinel: RedisURL.Location) {
        switch reply {
        case .success(.array(let parts)):
            guard parts.count == 2, let host = parts[0].text, let port = parts[1].text.flatMap({ UInt64($0) }),
                let location = RedisURL.Location(announced: host, port: port, by: sentinel)
            else { return askNextSentinel(after: RedisError(.protocolViolation, at: sentinel)) }
            checkRole(of: location)
        case .success(.error(let text)):
            askNextSentinel(after: RedisError(reply: text, from: sentinel))
        case .success:
            askNextSentinel(after: RedisError(.resolve, "\(sentinel): this Sentinel knows no primary \(primaryName)"))
        case .failure(let error):
            askNextSentinel(after: error)
        }
    }

    private func askNextSentinel(after error: RedisError) {
        sentinelIndex = (sentinelIndex + 1) % sentinels.locations.count
        failures.append(error)
        if unaskedSentinelCount > 0 { askSentinel() } else { finish(.failure(failures.summary)) }
    }

    /// Asks the server for its role, because during a failover a Sentinel may still name the old primary.
    private func checkRole(of location: RedisURL.Location) {
        sendCommand(configuration.url.replacingLocations(with: location), ["ROLE"]) { lookup, reply in
            switch reply {
            case .success(.array(let parts)) where parts.first?.text == "master":
                lookup.finish(.success(location))
            case .success(.array):
                lookup.askNextSentinel(after: RedisError(.readOnly, "\(location) is not the primary yet"))
            case .success(.error(let text)):
                let error = RedisError(reply: text, from: location)
                // The user may not call ROLE, so the role cannot be checked. Trust the Sentinel: if the server is a
                // replica, writes fail with READONLY.
                guard error.code != .noPermission else { return lookup.finish(.success(location)) }
                lookup.askNextSentinel(after: error)
            case .success:
                lookup.askNextSentinel(after: RedisError(.protocolViolation, at: location))
            case .failure(let error):
                // The server does not reply. Perhaps the Sentinel is cut off from the others and names an old primary,
                // so ask the next one.
                lookup.askNextSentinel(after: error)
            }
        }
    }

    private func finish(_ result: Result<RedisURL.Location, RedisError>) {
        let completion = completion
        cancel()
        completion?(result)
    }
}

/// Tells a connection where its server is. It asks the Sentinels for the primary before each attempt to connect. After
/// a failover, the connection is lost or gets READONLY, so its next attempt to connect finds the new primary.
final class SentinelLocator: ConnectionDelegate {
    private let lookup: SentinelLookup

    init(_ lookup: SentinelLookup) {
        self.lookup = lookup
    }

    func close() { lookup.cancel() }

    func connectionNeedsLocation(_ connection: RedisConnection) {
        lookup.cancel()
        lookup.find { [weak connection] result in
            switch result {
            case .success(let location): connection?.continueConnecting(to: location)
            case .failure(let error): connection?.disconnect(error)
            }
        }
    }

    func connectionBecameReady(_ connection: RedisConnection) {}
    func connectionWasLost(_ connection: RedisConnection) {}
    func serverReturnedError(_ call: OutstandingCall, on connection: RedisConnection, error: UnsafeRawBufferPointer) {}
}
