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

    private let entries: [Entry]
    /// Whether any app has a contract.
    let isNeeded: Bool
    /// The digests of states that fit, each at the place that its lowest bits name; 0: none. Empty if no app has a contract.
    private let seen: UnsafeMutableBufferPointer<UInt64>
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
    }

    deinit {
        for entry in entries { entry.image?.deallocate() }
        seen.deallocate()
    }

    /// Why no phone of the app could decode the command; nil if one could, or if the app has no contract.
    ///
    /// A state that was found to fit is not walked again: neither if its dictionary has the same bytes as the last one, nor while its
    /// digest is remembered.
    /// - Parameter dictionary: the number of Apple's dictionary; the same number means the same bytes. (``RepeatedAps``)
    mutating func mismatch(
        of command: Command,
        _ application: UInt16,
        dictionary: UInt64,
        in record: UnsafeRawBufferPointer
    ) -> ContractMismatch? {
        guard let image = entries[Int(application)].image else { return nil }
        if dictionary == lastDictionary, application == lastApplication { return nil }
        let digest = command.contractDigest(in: record) ^ entries[Int(application)].salt
        let place = Int(truncatingIfNeeded: digest & UInt64(Self.seenMax &- 1))
        if seen[place] != digest || digest == 0 {
            do throws(ContractMismatch) {
                try image.check(command, in: record)
            } catch {
                return error
            }
            seen[place] = digest
        }
        (lastDictionary, lastApplication) = (dictionary, application)
        return nil
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
