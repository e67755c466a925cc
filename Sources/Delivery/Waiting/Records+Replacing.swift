import LiveActivity

/// Decides which of two commands of an activity replaces the other.
extension Records {
    /// Whether the events of two commands allow the newer one to replace the older one, which is not sent yet. An end
    /// replaces its start, because no phone must ring for an activity that has ended. But the end of a lifetime
    /// replaces only another end of a lifetime: it has no state, so the last state must be sent before it.
    @inline(__always)
    func mayReplace(_ older: RecordIndex, by newer: RecordIndex) -> Bool {
        switch (address(of: older).pointee.event, address(of: newer).pointee.event) {
        case (.update, .end), (.start, .end): !address(of: newer).pointee.lifetime.isEnd
        case (.end, .end): !address(of: newer).pointee.lifetime.isEnd || address(of: older).pointee.lifetime.isEnd
        case (.update, .update), (.start, .start): true
        case (.update, .start), (.start, .update), (.end, _): false
        }
    }

    @inline(__always)
    func isNewer(_ record: RecordIndex, than other: RecordIndex) -> Bool {
        address(of: record).pointee.version > address(of: other).pointee.version
    }

    @inline(__always)
    func areSameVersion(_ record: RecordIndex, _ other: RecordIndex) -> Bool {
        address(of: record).pointee.version == address(of: other).pointee.version
    }

    /// Whether the command `newer` replaces the command `older`. Either index may be `.null`, which means no command.
    ///
    /// Usually the newer version decides. But the versions of lifetime commands do not come from the producer, so two
    /// cases do not depend on versions:
    /// - Any start or end replaces the end of a lifetime.
    /// - Any end that the producer sent replaces a start after a lifetime.
    @inline(__always)
    func isReplaced(_ older: RecordIndex, by newer: RecordIndex) -> Bool {
        guard older != .null, newer != .null else { return false }
        if address(of: older).pointee.lifetime.isEnd, address(of: newer).pointee.event != .update { return true }
        if address(of: older).pointee.lifetime.isRestart, address(of: newer).pointee.isEndFromProducer { return true }
        return mayReplace(older, by: newer) && isNewer(newer, than: older)
    }
}
