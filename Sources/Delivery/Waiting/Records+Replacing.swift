import LiveActivity

/// Decides which of two commands of an activity replaces the other.
extension Records {
    /// Whether the events of two commands allow `other` to replace `command`, which is not sent yet: a command can be
    /// replaced only by a command with the same event, or by an end. Versions are not compared.
    ///
    /// An end also replaces a start, because no phone must ring for an activity that has ended. But the end of a
    /// lifetime replaces only another end of a lifetime: it has no state, so the activity's last state must be sent
    /// before it.
    @inline(__always)
    func eventsAllowReplacing(_ command: RecordIndex, by other: RecordIndex) -> Bool {
        switch (address(of: command).pointee.event, address(of: other).pointee.event) {
        case (.update, .end), (.start, .end): !address(of: other).pointee.lifetime.isEnd
        case (.end, .end): !address(of: other).pointee.lifetime.isEnd || address(of: command).pointee.lifetime.isEnd
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

    /// Whether `other` replaces `command`. Either index may be `.null`, which means no command.
    ///
    /// Usually the newer version replaces the older one. But the versions of lifetime commands do not come from the
    /// producer, so two cases do not depend on versions:
    /// - Any start or end replaces the end of a lifetime.
    /// - Any end that the producer sent replaces a start after a lifetime.
    @inline(__always)
    func isReplaced(_ command: RecordIndex, by other: RecordIndex) -> Bool {
        guard command != .null, other != .null else { return false }
        if address(of: command).pointee.lifetime.isEnd, address(of: other).pointee.event != .update { return true }
        if address(of: command).pointee.lifetime.isRestart, address(of: other).pointee.isEndFromProducer { return true }
        return eventsAllowReplacing(command, by: other) && isNewer(other, than: command)
    }
}
