import LiveActivity

/// Decides which of two commands of an activity replaces the other.
extension Records {
    /// Whether a newer command replaces an older unsent one, by their events. An end replaces its start, because no phone must
    /// ring for something that is over.
    @inline(__always)
    func mayReplace(_ older: UInt32, by newer: UInt32) -> Bool {
        switch (address(of: older).pointee.event, address(of: newer).pointee.event) {
        case (.update, .update), (.update, .end), (.start, .start), (.start, .end), (.end, .end): true
        case (.update, .start), (.start, .update), (.end, _): false
        }
    }

    @inline(__always)
    func isNewer(_ record: UInt32, than other: UInt32) -> Bool {
        address(of: record).pointee.version > address(of: other).pointee.version
    }

    @inline(__always)
    func areSameVersion(_ record: UInt32, _ other: UInt32) -> Bool {
        address(of: record).pointee.version == address(of: other).pointee.version
    }

    /// Whether a newer command replaces an older one. Either may be `.max`, which means none.
    @inline(__always)
    func isOvertaken(_ older: UInt32, by newer: UInt32) -> Bool {
        guard older != .max, newer != .max else { return false }
        return mayReplace(older, by: newer) && isNewer(newer, than: older)
    }
}
