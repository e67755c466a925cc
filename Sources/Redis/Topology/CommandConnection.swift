import Reactor

/// A connection that allocates memory for each reply and does not reconnect. It serves look-ups at Sentinels and
/// clusters, and the commands of ``PrimaryConnections``. The lanes' calls use ``RedisConnection``, where a call and its
/// reply allocate nothing.
///
/// Each command gets one reply or one error, in the order of the commands. If the connection is lost, all waiting
/// commands get the error, and later ones fail at once. If the owner calls `close`, waiting commands get nothing.
final class CommandConnection {
    typealias Completion = (Result<RedisValue, RedisError>) -> Void

    /// The maximum number of commands that may wait for their reply. The caller must send no more.
    static let commandsMax = 4_096

    private let loop: EventLoop
    private let url: RedisURL
    private let configuration: RedisConfiguration
    /// The server's addresses that the connection has not tried yet.
    private var untriedAddresses: ArraySlice<SocketAddress> = []
    private var stream: Stream?
    private var reader: RedisValueReader?
    private var waitingCompletions: ArraySlice<Completion> = []
    /// Commands that wait until the connection is up.
    private var unsentCommands: [[[UInt8]]] = []
    private var isConnected = false
    /// Whether the connection was closed or lost.
    private(set) var isClosed = false
    private var deadlineTimer = TimerIdentifier.none

    /// Connects at once. If the URL has credentials or a database, sends AUTH and SELECT before all other commands.
    ///
    /// - Parameters:
    ///   - url: the connection goes to its first location.
    ///   - configuration: only its limits and its TLS context are used.
    init(loop: EventLoop, url: RedisURL, configuration: RedisConfiguration) {
        precondition(!url.usesTLS || configuration.tls != nil, "a rediss URL needs a TLS context")
        self.loop = loop
        self.url = url
        self.configuration = configuration
        // The deadline includes the look-up of the host's addresses, which has no time limit of its own.
        restartDeadline(configuration.connectTimeoutMilliseconds + configuration.replyDeadlineMilliseconds)
        switch url.firstLocation {
        case .unix(let path):
            untriedAddresses = SocketAddress.unix(path: path).map { [$0] } ?? []
            loop.callAtIterationEnd(self)
        case .host(let host, let port):
            loop.resolve(host: host, port: port) { [weak self] result in
                switch result {
                case .success(let foundAddresses):
                    self?.untriedAddresses = foundAddresses[...]
                    self?.connectToNextAddress()
                case .failure(let error):
                    self?.endConnection(RedisError(.resolve, "Redis host: \(error.reason)"))
                }
            }
        }
    }

    deinit {
        stream?.close()
    }

    var location: RedisURL.Location { url.firstLocation }

    func send(_ arguments: [String], _ completion: @escaping Completion) {
        send(arguments.map { Array($0.utf8) }, completion)
    }

    func send(_ arguments: [[UInt8]], _ completion: @escaping Completion) {
        precondition(waitingCompletions.count < Self.commandsMax, "more commands wait than the limit allows")
        guard !isClosed else { return completion(.failure(RedisError(.closed))) }
        if isConnected && waitingCompletions.isEmpty { restartDeadline(configuration.replyDeadlineMilliseconds) }
        waitingCompletions.append(completion)
        if isConnected { write(arguments) } else { unsentCommands.append(arguments) }
    }

    func close() {
        isClosed = true
        waitingCompletions = []
        unsentCommands = []
        closeStream()
    }

    /// Closes the connection because of an error, and passes the error to all waiting commands.
    private func endConnection(_ error: RedisError) {
        guard !isClosed else { return }
        isClosed = true
        closeStream()
        let failedCompletions = waitingCompletions
        waitingCompletions = []
        unsentCommands = []
        let locatedError = RedisError(error.code, "\(location): \(error.reason)")
        for completion in failedCompletions { completion(.failure(locatedError)) }
    }

    private func closeStream() {
        stream?.close()
        stream = nil
        reader = nil
        loop.cancel(deadlineTimer)
        deadlineTimer = .none
    }

    private func connectToNextAddress() {
        guard !isClosed else { return }
        guard let address = untriedAddresses.popFirst() else { return endConnection(RedisError(.resolve)) }
        let stream = Stream(loop: loop, handler: self)
        self.stream = stream
        var serverName: String?
        if case .host(let host, _) = url.firstLocation { serverName = host }
        stream.connect(
            to: address,
            tls: url.usesTLS ? configuration.tls : nil,
            serverName: serverName,
            timeoutMilliseconds: configuration.connectTimeoutMilliseconds
        )
    }

    private func write(_ arguments: [[UInt8]]) {
        if !withCommandText(arguments, { stream?.write($0) }) {
            endConnection(RedisError(.protocolViolation, "no memory"))
        }
    }

    /// Sends AUTH and SELECT, and then the commands that have waited for the connection. If AUTH or SELECT fails, the
    /// connection ends.
    private func sendFirstCommands() {
        var commands: [[String]] = []
        if let credentials = url.credentials { commands.append(credentials.authenticationCommand) }
        if url.database != 0 { commands.append(["SELECT", String(url.database)]) }
        let ownCompletions: [Completion] = commands.map { command in
            write(command.map { Array($0.utf8) })
            return { [weak self] result in
                guard case .success(.error(let text)) = result else { return }
                let error = text.withUnsafeBytes { RedisError(reply: $0) }
                // The text of an unknown error may repeat AUTH's arguments, and so the password. Do not report it.
                self?.endConnection(error.code == .unknown && command[0] == "AUTH" ? RedisError(.wrongPassword) : error)
            }
        }
        waitingCompletions = (ownCompletions + waitingCompletions)[...]
        let delayedCommands = unsentCommands
        unsentCommands = []
        for arguments in delayedCommands { write(arguments) }
    }

    private func restartDeadline(_ milliseconds: Int64) {
        loop.cancel(deadlineTimer)
        deadlineTimer = loop.schedule(afterMilliseconds: milliseconds, handler: self, tag: 0)
    }
}

extension CommandConnection: StreamHandler, TimerHandler, IterationEndHandler {
    func iterationEnded() { connectToNextAddress() }

    func timerFired(tag: UInt64) {
        // The deadline is for connecting, and for commands that wait. A connection without waiting commands stays open.
        if isConnected && waitingCompletions.isEmpty { return }
        endConnection(RedisError(.deadline))
    }

    func streamConnected(_ stream: Stream) {
        guard stream === self.stream else { return }
        guard let reader = RedisValueReader() else {
            return endConnection(RedisError(.protocolViolation, "no memory for the reader"))
        }
        self.reader = reader
        isConnected = true
        restartDeadline(configuration.replyDeadlineMilliseconds)
        sendFirstCommands()
    }

    func stream(_ stream: Stream, received bytes: UnsafeRawBufferPointer) {
        guard stream === self.stream, let reader else { return }
        guard reader.feed(bytes) else { return endConnection(RedisError(.protocolViolation)) }
        // Stop reading if a completion has closed the connection.
        while stream === self.stream {
            switch reader.next() {
            case .incomplete:
                return
            case .violation:
                return endConnection(RedisError(.protocolViolation))
            case .value(let value):
                guard let completion = waitingCompletions.popFirst() else {
                    return endConnection(RedisError(.protocolViolation))
                }
                restartDeadline(configuration.replyDeadlineMilliseconds)
                completion(.success(value))
            }
        }
    }

    func streamHasRoom(_ stream: Stream) {}

    func streamClosed(_ stream: Stream, error: StreamError?) {
        guard stream === self.stream else { return }
        if !isConnected && !untriedAddresses.isEmpty { return connectToNextAddress() }
        endConnection(RedisError(.stream, "connection to Redis: \(error?.description ?? "closed by the server")"))
    }
}
