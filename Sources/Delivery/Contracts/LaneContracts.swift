import LiveActivity

/// The contracts of one lane's apps, and the states that are known to fit them.
struct LaneContracts: ~Copyable {
    /// The number of states that are remembered: 32 KiB. A power of two.
    static let seenMax = 4_096

    private struct Entry: BitwiseCopyable {
        /// Nil: the app has no contract.
        var image: ContractImage?
        var isRefusing: Bool
        /// Makes equal states of two apps different. Random, so that no producer knows which states share a place.
        var salt: UInt64
    }

    /// The number of states that do not fit and are remembered. A power of two.
    static let refusedMax = 64

    private struct Refused: BitwiseCopyable {
        var digest: UInt64 = 0
        /// With the position in the state.
        var mismatch: ContractMismatch?
    }

    private let entries: [Entry]
    /// Whether any app has a contract.
    let isNeeded: Bool
    /// The digests of states that fit, each at one of the two places that its lowest bits name, the newer one first; 0: none. Empty if no
    /// app has a contract.
    private let seen: UnsafeMutableBufferPointer<UInt64>
    /// The last state that did not fit at each of ``refusedMax`` places, for a producer that repeats it. Empty if no app has a contract.
    private let refused: UnsafeMutableBufferPointer<Refused>
    /// The states that were walked last, with values that may vary. The decoder reads states by them.
    var forms: StateForms
    /// How many states were compared completely with their shapes, because no remembered result applied.
    private(set) var walked: UInt64 = 0
    /// The last dictionary of Apple's that fits, and its app.
    private var lastDictionary: UInt64 = 0
    private var lastApplication: UInt16 = 0

    /// - Parameter salt: random, other in each lane.
    init(_ applications: [DeliveryConfiguration.Application], salt: UInt64) {
        entries = applications.enumerated()
            .map { position, application in
                Entry(
                    image: application.contract.map { ContractImage(copying: $0.contract) },
                    isRefusing: application.contract?.isRefusing ?? false,
                    salt: (salt | 1) &* (UInt64(position) &* 2 &+ 1)
                )
            }
        isNeeded = applications.contains { $0.contract != nil }
        seen = .allocate(capacity: isNeeded ? Self.seenMax : 0)
        seen.initialize(repeating: 0)
        refused = .allocate(capacity: isNeeded ? Self.refusedMax : 0)
        refused.initialize(repeating: Refused())
        forms = StateForms(isNeeded: isNeeded)
    }

    deinit {
        for entry in entries { entry.image?.deallocate() }
        seen.deallocate()
        refused.deallocate()
    }

    /// Why no phone of the app could decode the command; nil if one could, or if the app has no contract.
    ///
    /// A state that was found to fit is not walked again: neither if its dictionary has the same bytes as the last one, nor while its
    /// digest is remembered. Of a new state that has the form of a remembered one, the decoder has read the values that differ.
    /// - Parameter dictionary: the number of Apple's dictionary; the same number means the same bytes. (``RepeatedAps``)
    mutating func mismatch(
        of command: Command,
        _ application: UInt16,
        dictionary: UInt64,
        in record: UnsafeRawBufferPointer
    ) -> ContractMismatch? {
        guard let image = entries[Int(application)].image else { return nil }
        if dictionary == lastDictionary, application == lastApplication { return nil }
        if !forms.hasRead(command, ofApp: application),
            let mismatch = mismatch(ofUnread: command, application, image, in: record)
        {
            return mismatch
        }
        (lastDictionary, lastApplication) = (dictionary, application)
        return nil
    }

    private mutating func mismatch(
        ofUnread command: Command,
        _ application: UInt16,
        _ image: ContractImage,
        in record: UnsafeRawBufferPointer
    ) -> ContractMismatch? {
        let digest = command.contractDigest(in: record) ^ entries[Int(application)].salt
        let place = Int(truncatingIfNeeded: digest & UInt64(Self.seenMax &- 2))
        if digest != 0, seen[place] == digest || seen[place &+ 1] == digest { return nil }
        if !forms.match(command, ofApp: application, in: record),
            let mismatch = remembered(digest, of: command) ?? walk(command, application, image, digest, record)
        {
            return mismatch
        }
        (seen[place], seen[place &+ 1]) = (digest, seen[place])
        return nil
    }

    /// Why a state that was walked before does not fit. A start is walked each time.
    private func remembered(_ digest: UInt64, of command: Command) -> ContractMismatch? {
        let place = Int(truncatingIfNeeded: digest & UInt64(Self.refusedMax &- 1))
        guard command.event != .start, refused[place].digest == digest, var mismatch = refused[place].mismatch else {
            return nil
        }
        mismatch.offset += Int(command.contentState.offset)
        return mismatch
    }

    @inline(never)
    private mutating func walk(
        _ command: Command,
        _ application: UInt16,
        _ image: ContractImage,
        _ digest: UInt64,
        _ record: UnsafeRawBufferPointer
    ) -> ContractMismatch? {
        walked &+= 1
        do throws(ContractMismatch) {
            try forms.check(command, ofApp: application, image, in: record)
            return nil
        } catch {
            var mismatch = error
            mismatch.offset -= Int(command.contentState.isAbsent ? 0 : command.contentState.offset)
            let place = Int(truncatingIfNeeded: digest & UInt64(Self.refusedMax &- 1))
            refused[place] = Refused(digest: digest, mismatch: mismatch)
            return error
        }
    }

    func isRefusing(_ application: UInt16) -> Bool { entries[Int(application)].isRefusing }

    func message(
        _ mismatch: ContractMismatch,
        of command: Command,
        _ application: UInt16,
        in record: UnsafeRawBufferPointer,
        showsValue: Bool
    ) -> String {
        entries[Int(application)].image?.message(mismatch, command, in: record, showsValue: showsValue) ?? ""
    }
}
