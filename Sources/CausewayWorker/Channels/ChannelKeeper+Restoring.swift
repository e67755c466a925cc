import Kafka
import Redis

/// Restores Redis' register of channels from `causeway.channels` after Redis has lost the register.
///
/// The field `t:` of a register says that its entries are complete. Until a register is complete again, no
/// worker creates a channel, begins to delete one, or reports one as missing. So phones keep the channel that they
/// know.
extension ChannelKeeper {
    /// The most attempts of one call of ``restore(_:)``. The call makes another attempt if, during the last one,
    /// another process deleted a channel or Redis lost the register.
    private static let restorationsMax = 8
    /// How long the keeper waits after a failed restoration before it tries again.
    static let restorationPauseMilliseconds: Int64 = 5_000

    /// Returns an audience's entry. If the register has no entry and is incomplete, restores the register and looks
    /// again.
    func entry(of audience: String, at managedEnvironment: ManagedEnvironment) throws(ChannelRefusal) -> ChannelEntry? {
        func find() throws(ChannelRefusal) -> (entry: ChannelEntry?, isComplete: Bool) {
            try convertingErrors { () throws(RedisError) in
                try register.find(managedEnvironment.appEnvironment, audience: audience)
            }
        }
        let firstLookup = try find()
        guard firstLookup.entry == nil, !firstLookup.isComplete else { return firstLookup.entry }
        try restore([managedEnvironment])
        return try find().entry
    }

    /// Reads everything that the register has for an app in an environment, even if the register is
    /// incomplete.
    func readRegisterAsIs(_ managedEnvironment: ManagedEnvironment) throws(ChannelRefusal)
        -> Reconciliation.RegisterContent
    {
        let content = try convertingErrors { () throws(RedisError) in
            try register.content(managedEnvironment.appEnvironment)
        }
        if content.isComplete { completeEnvironments.insert(managedEnvironment.appEnvironment) }
        return content
    }

    /// Reads everything that the register has for an app in an environment. Restores the register first if it
    /// is incomplete.
    func readCompleteRegister(_ managedEnvironment: ManagedEnvironment) throws(ChannelRefusal)
        -> Reconciliation.RegisterContent
    {
        let content = try readRegisterAsIs(managedEnvironment)
        if content.isComplete { return content }
        try restore([managedEnvironment])
        return try readRegisterAsIs(managedEnvironment)
    }

    /// Restores each incomplete register of the apps and environments that use channels: the configuration gives
    /// some audiences a channel, or the register was complete before. This cannot wait until an audience needs a
    /// new channel, because admission needs the existing ones.
    func restoreLost() throws(ChannelRefusal) {
        try restore(managedEnvironments.filter { $0.isDeclared || completeEnvironments.contains($0.appEnvironment) })
    }

    /// Copies entries from `causeway.channels` to those of these registers that are incomplete. Also writes the
    /// channels into the audiences' records, where admission reads them. Several processes may do this at the
    /// same time.
    func restore(_ managedEnvironments: [ManagedEnvironment]) throws(ChannelRefusal) {
        for _ in 0..<Self.restorationsMax {
            var tokens: [AppEnvironment: [UInt8]] = [:]
            for managedEnvironment in managedEnvironments {
                tokens[managedEnvironment.appEnvironment] = try convertingErrors { () throws(RedisError) in
                    guard try !register.isComplete(managedEnvironment.appEnvironment) else { return nil }
                    return try register.beginRestoration(managedEnvironment.appEnvironment)
                }
                if tokens[managedEnvironment.appEnvironment] == nil {
                    completeEnvironments.insert(managedEnvironment.appEnvironment)
                }
            }
            guard !tokens.isEmpty else { return }
            let publishedEntries = try publishedEntries()
            for (appEnvironment, token) in tokens {
                let entries = publishedEntries.filter {
                    $0.app == appEnvironment.app && $0.environment == appEnvironment.environment
                }
                // If `register.restore` returns false, the next pass of the outer loop reads the topic again.
                _ = try convertingErrors { () throws(RedisError) in
                    try register.restore(entries, appEnvironment, token: token, atMilliseconds: nowMilliseconds)
                }
            }
        }
        throw ChannelRefusal(
            text: "the register of channels changes while it is restored",
            untilMilliseconds: nowMilliseconds + Self.restorationPauseMilliseconds
        )
    }

    /// Reads all entries of the topic. After a failure, throws the same refusal for a while, so that not
    /// every request waits for Kafka's timeout.
    private func publishedEntries() throws(ChannelRefusal) -> [ChannelEntry] {
        if let restorationRefusal, nowMilliseconds < restorationRefusal.untilMilliseconds { throw restorationRefusal }
        do throws(KafkaError) {
            return try topic.entries()
                .map { entry in
                    var entry = entry
                    entry.isPublished = true
                    return entry
                }
        } catch {
            let refusal = ChannelRefusal(
                text:
                    "the register of channels in Redis is not complete, and the channels cannot be read from Kafka: \(error)",
                untilMilliseconds: nowMilliseconds + Self.restorationPauseMilliseconds
            )
            restorationRefusal = refusal
            throw refusal
        }
    }
}
