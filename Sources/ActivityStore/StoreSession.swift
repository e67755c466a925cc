import LiveActivity
import Redis

/// What the session must remember of a call so that it can read the call's reply.
struct StoreSessionCall: BitwiseCopyable {
    var tag: UInt64
    var kind: StoreCallKind
    // The next four properties are set for an update or an end. Redis may reply with only the activity's value, which
    // means: send the command as it asks. The session then takes the timestamp and the priority from these properties,
    // and computes the pushes left from one of the two budgets.

    /// The `aps.timestamp` that the command asks for, UNIX seconds.
    var timestamp: Int64 = 0
    var requestsHighPriority = false
    var budget = Policy.Bucket(pushes: 1, refillPerHour: 1, reservedForAlerts: 0)
    var frequentBudget = Policy.Bucket(pushes: 1, refillPerHour: 1, reservedForAlerts: 0)
}

/// Writes the store's calls on one connection, several of them as one Redis command, and reads the replies.
final class StoreSession: RedisSession {
    weak var handler: (any ActivityStoreHandler)?
    var scripts: [String] { StoreScript.luaSources }
    /// The calls that have no reply yet, oldest first.
    var outstandingCalls: CallQueue<StoreSessionCall>
    /// Updates, ends and settlements that are not written yet. The session writes these calls before any other call, so
    /// that Redis replies in the order of ``outstandingCalls``.
    var commandCallBatch: CommandCallBatch
    /// Registrations and confirmations that are not written yet. While this batch has a call, ``commandCallBatch`` is
    /// empty, so that calls are written in the order in which they were issued.
    var registrationBatch: RegistrationBatch
    /// Room for the unpacked token of a reply: each packed byte becomes two digits.
    let tokenBuffer = UnsafeMutableRawBufferPointer.allocate(byteCount: StoredDeviceToken.bytesMax * 2, alignment: 1)

    /// Makes the session of one connection.
    ///
    /// - Parameters:
    ///   - configuration: the connection's configuration. It limits the outstanding calls, and the calls that one
    ///     command of Redis carries.
    ///   - handler: held weakly.
    init(configuration: RedisConfiguration, handler: (any ActivityStoreHandler)?) {
        outstandingCalls = CallQueue(capacity: configuration.outstandingCallsMax)
        commandCallBatch = CommandCallBatch(capacity: configuration.callsPerCommandMax)
        registrationBatch = RegistrationBatch(capacity: configuration.callsPerCommandMax)
        self.handler = handler
    }

    deinit {
        tokenBuffer.deallocate()
    }

    func flush(on connection: RedisConnection) {
        flushCommandCalls(on: connection)
        flushRegistrations(on: connection)
    }

    /// Writes all updates, ends and settlements that were collected, as one Redis command.
    func flushCommandCalls(on connection: RedisConnection) {
        guard commandCallBatch.count > 0 else { return }
        let prefix = connection.scriptCallPrefixes[StoreScript.admit.rawValue]
        connection.write(
            callCount: commandCallBatch.count,
            bytesMax: ScriptCallPrefixes.bytesPerPrefix + commandCallBatch.commandBytesMax
        ) {
            commandCallBatch.write(prefix: prefix, to: $0)
        }
        commandCallBatch.removeAll()
    }

    /// Writes all registrations and confirmations that were collected, as one Redis command.
    func flushRegistrations(on connection: RedisConnection) {
        guard registrationBatch.count > 0 else { return }
        let prefix = connection.scriptCallPrefixes[StoreScript.admit.rawValue]
        connection.write(
            callCount: registrationBatch.count,
            bytesMax: ScriptCallPrefixes.bytesPerPrefix + registrationBatch.commandBytesMax
        ) { registrationBatch.write(prefix: prefix, to: $0) }
        registrationBatch.removeAll()
    }

    func discardCollectedCalls() {
        commandCallBatch.removeAll()
        registrationBatch.removeAll()
    }

    func handleFailureOfOldestCall(_ error: RedisError) {
        guard let call = outstandingCalls.removeOldest() else {
            preconditionFailure("a call failed that was not issued")
        }
        handler?.storeCallFailed(tag: call.tag, script: call.kind.loggedScript, error: error)
    }
}
