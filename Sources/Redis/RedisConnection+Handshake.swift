import Reactor

extension RedisConnection {
    /// The oldest major release of Redis that works. In older releases, a script that has read the clock cannot write.
    static let serverMajorVersionMin = 5

    /// Sends the first commands of a new connection, with one write. The scripts follow after the reply to INFO,
    /// because their text depends on the server's release.
    func beginHandshake() {
        hasReloadedScripts = false
        serverSupportsScriptFlags = false
        if let credentials = configuration.url.credentials {
            writeCommand(.authenticate, credentials.authenticationCommand)
        }
        if configuration.url.database != 0 { writeCommand(.select, ["SELECT", String(configuration.url.database)]) }
        writeCommand(.setName, ["CLIENT", "SETNAME", configuration.clientName])
        writeCommand(.evictionPolicy, ["CONFIG", "GET", "maxmemory-policy"])
        writeCommand(.serverInformation, ["INFO", "server"])
    }

    private func loadScripts() {
        // With the line `#!lua`, Redis 7 refuses a whole script if the server is out of memory, before the script has
        // written anything. In an older release the line is a syntax error.
        let scriptHeader = serverSupportsScriptFlags ? "#!lua\n" : ""
        loadedScriptCount = 0
        for script in session.scripts { writeCommand(.loadScript, ["SCRIPT", "LOAD", scriptHeader + script]) }
    }

    /// Loads the scripts again, because the server has lost them. Call it only once per connection: a server that loses
    /// the scripts again cannot be used.
    func reloadScripts() {
        hasReloadedScripts = true
        loadScripts()
    }

    /// Handles the reply to a command of the connection itself. A refusal may end the connection. After the reply to
    /// the last script, the connection is ready.
    func handleReplyToOwnCommand(
        _ reply: Reply,
        to kind: OutstandingCallKind,
        from reader: ReplyReader,
        _ handler: (any RedisHandler)?
    ) {
        var refusal: RedisError?
        if reply.kind == .error {
            let error = RedisError(reply: reply.bytes)
            if error.code == .loading || error.code == .masterDown || error.code == .noAuthentication {
                return disconnect(error)
            }
            refusal = error
        }
        switch kind {
        case .authenticate:
            // The text of an unknown error may repeat AUTH's arguments, and so the password. Do not report it.
            if let refusal { disconnect(RedisError(refusal.code == .unknown ? .wrongPassword : refusal.code)) }
        case .select:
            if let refusal { disconnect(refusal) }
        case .setName, .asking:
            // Continue if the server refuses one of these commands. CLIENT SETNAME only helps people who read CLIENT
            // LIST. Without ASKING, the server replies MOVED to the next call, and the cluster follows that.
            break
        case .evictionPolicy:
            handleEvictionPolicy(reply, refusal, from: reader, handler)
        case .serverInformation:
            if let refusal {
                handler?.redisWarned(.versionUnknown(refusal))
            } else {
                guard reply.kind == .string else { return disconnect(RedisError(.protocolViolation)) }
                let information = ServerInformation(reply.bytes)
                if let version = information.majorVersion {
                    guard version >= Self.serverMajorVersionMin else { return disconnect(RedisError(.serverTooOld)) }
                    serverSupportsScriptFlags = version >= 7
                }
                guard configuration.topology.accepts(information) else {
                    return disconnect(RedisError(.clusterEnabled))
                }
            }
            // The handler may have closed the connection inside `redisWarned`. Then load no scripts.
            if phase == .handshaking { loadScripts() }
        case .loadScript:
            if let refusal { return disconnect(refusal) }
            guard reply.kind == .string, scriptCallPrefixes.setDigest(reply.bytes, of: loadedScriptCount) else {
                return disconnect(RedisError(.protocolViolation))
            }
            loadedScriptCount += 1
            if loadedScriptCount == session.scripts.count && phase == .handshaking { becomeReady() }
        case .waitForReplicas:
            handleReplicaCount(reply)
        case .sessionCall:
            preconditionFailure("a script call is not the connection's own command")
        }
    }

    private func handleEvictionPolicy(
        _ reply: Reply,
        _ refusal: RedisError?,
        from reader: ReplyReader,
        _ handler: (any RedisHandler)?
    ) {
        if let refusal {
            handler?.redisWarned(.evictionPolicyUnknown(refusal))
        } else if reply.kind == .array(count: 2) {
            let policy = String(decoding: reader.element(1).bytes.prefix(64), as: UTF8.self)
            if policy != "noeviction" { handler?.redisWarned(.mayEvictKeys(policy: policy)) }
        } else {
            handler?.redisWarned(.evictionPolicyUnknown(RedisError(.unknown, "the server has no maxmemory-policy")))
        }
    }

    /// Writes one of the connection's own commands. First lets the session write the calls that it has collected: they
    /// are already in `outstandingCalls`, whose order is that of the replies.
    private func writeCommand(_ kind: OutstandingCallKind, _ arguments: [String]) {
        guard let stream else { return }
        session.flush(on: self)
        guard withCommandText(arguments, { stream.write($0) }) else {
            return disconnect(RedisError(.protocolViolation, "no memory for a command"))
        }
        appendOutstandingCall(kind, commandCallCount: 1)
    }
}
