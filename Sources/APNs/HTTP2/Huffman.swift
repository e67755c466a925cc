/// HPACK's Huffman code (RFC 7541, section 5.2 and appendix B).
///
/// The code is canonical: codes of one length are in the order of their symbols. So the table of code lengths
/// defines every code.
struct Huffman: @unchecked Sendable {
    /// The memory is written once and never freed, so all threads may read it.
    static let code = Huffman()

    /// The longest code of a byte, in bits.
    private static let codeBitsMax = 30
    /// The longest code, in bits, that a look-up in `shortCodes` finds. All digits and letters have codes of at most
    /// this length.
    private static let shortCodeBitsMax: UInt64 = 8
    /// How many bits a look-up in `codePairs` reads: enough for two codes of six bits, such as two symbols of an
    /// `apns-id`. In a benchmark of rounds, decoding took 4.5 % of the CPU with two symbols at a time, and 10 % with
    /// one (Measurements.md).
    private static let codePairBitsMax = 12

    /// For each value of the next eight bits: the symbol (lower byte) and the length of its code (upper byte). 0 if a
    /// longer code begins with these bits.
    private let shortCodes: UnsafeMutablePointer<UInt16>
    /// For each value of the next twelve bits, if they begin with two whole codes: the first symbol (lowest byte), the
    /// second symbol (next byte), and the length of both codes (the bits above). Otherwise 0.
    private let codePairs: UnsafeMutablePointer<UInt32>
    /// The first code of each length, left-aligned in 32 bits.
    private let firstCodesByLength: UnsafeMutablePointer<UInt32>
    /// The index in `symbolsInCodeOrder` of the first code of each length.
    private let firstSymbolIndicesByLength: UnsafeMutablePointer<Int>
    private let symbolsInCodeOrder: UnsafeMutablePointer<UInt8>
    private let codesBySymbol: UnsafeMutablePointer<UInt32>

    private init() {
        shortCodes = .allocate(capacity: 256)
        codePairs = .allocate(capacity: 1 << Self.codePairBitsMax)
        firstCodesByLength = .allocate(capacity: Self.codeBitsMax + 2)
        firstSymbolIndicesByLength = .allocate(capacity: Self.codeBitsMax + 2)
        symbolsInCodeOrder = .allocate(capacity: 256)
        codesBySymbol = .allocate(capacity: 256)
        shortCodes.initialize(repeating: 0, count: 256)
        var code: UInt32 = 0
        var symbolIndex = 0
        for bitCount in 1...Self.codeBitsMax {
            code <<= 1
            firstCodesByLength.advanced(by: bitCount).initialize(to: code << UInt32(32 - bitCount))
            firstSymbolIndicesByLength.advanced(by: bitCount).initialize(to: symbolIndex)
            for symbol in 0..<256 where Int(codeBitCounts[symbol]) == bitCount {
                symbolsInCodeOrder.advanced(by: symbolIndex).initialize(to: UInt8(symbol))
                codesBySymbol.advanced(by: symbol).initialize(to: code)
                if bitCount <= 8 {
                    let start = Int(code) << (8 - bitCount)
                    for index in start..<start + 1 << (8 - bitCount) {
                        shortCodes[index] = UInt16(bitCount) << 8 | UInt16(symbol)
                    }
                }
                code += 1
                symbolIndex += 1
            }
        }
        for bits in 0..<1 << Self.codePairBitsMax {
            let firstCode = shortCodes[bits >> 4]
            let secondCode = shortCodes[(bits << Int(firstCode >> 8) & 0xFFF) >> 4]
            let length = Int(firstCode >> 8) + Int(secondCode >> 8)
            let isPair = firstCode > 0 && secondCode > 0 && length <= Self.codePairBitsMax
            let symbolPair = UInt32(firstCode & 0xFF) | UInt32(secondCode & 0xFF) << 8
            codePairs.advanced(by: bits).initialize(to: isPair ? symbolPair | UInt32(length) << 16 : 0)
        }
        // The last code, 30 bits of 1, is the end-of-string symbol, which is not allowed within a string.
        // `decodeLongCode` rejects this code.
        firstCodesByLength.advanced(by: Self.codeBitsMax + 1).initialize(to: code << UInt32(32 - Self.codeBitsMax))
        firstSymbolIndicesByLength.advanced(by: Self.codeBitsMax + 1).initialize(to: symbolIndex)
    }

    // MARK: - Decoding

    /// Returns how many bytes of room the output of `decode` needs. The shortest code has five bits.
    static func decodedBytesMax(encodedBytes: Int) -> Int { encodedBytes * 8 / 5 }

    /// Decodes a string, and returns the length of its text in bytes; nil if the input is not valid (RFC 7541, section
    /// 5.2).
    ///
    /// - Parameter output: has room for `decodedBytesMax(encodedBytes:)` bytes.
    func decode(_ input: UnsafeRawBufferPointer, into output: UnsafeMutableRawBufferPointer) -> Int? {
        precondition(output.count >= Self.decodedBytesMax(encodedBytes: input.count))
        guard let destination = output.baseAddress, let source = input.baseAddress else {
            return input.isEmpty ? 0 : nil
        }
        // The next bits of the input, left-aligned and inverted. A shift appends zeros, which stand for ones. So after
        // its last bit the input seems to continue with ones, as HPACK's padding does.
        var invertedBits: UInt64 = 0
        var availableBits = 0
        var position = 0
        var count = 0
        while true {
            if position + 8 <= input.count {
                let next = ~UInt64(bigEndian: source.loadUnaligned(fromByteOffset: position, as: UInt64.self))
                invertedBits |= next &>> UInt64(truncatingIfNeeded: availableBits)
                let takenBytes = (63 &- availableBits) &>> 3
                position += takenBytes
                availableBits += takenBytes * 8
                // The load may also have set bits beyond `availableBits`, from a byte that does not count yet. This
                // does no harm: the next load reads this byte again, and sets the same bits.
            } else {
                while availableBits <= 56, position < input.count {
                    let next = UInt64(~source.load(fromByteOffset: position, as: UInt8.self))
                    invertedBits |= next &<< UInt64(truncatingIfNeeded: 56 - availableBits)
                    availableBits += 8
                    position += 1
                }
            }
            while true {
                let pair = codePairs[Int(truncatingIfNeeded: ~invertedBits &>> 52)]
                let pairLength = Int(pair &>> 16)
                if pairLength > 0, pairLength <= availableBits {
                    let symbolPair = UInt16(truncatingIfNeeded: pair).littleEndian
                    destination.storeBytes(of: symbolPair, toByteOffset: count, as: UInt16.self)
                    count += 2
                    invertedBits = invertedBits &<< UInt64(truncatingIfNeeded: pairLength)
                    availableBits -= pairLength
                    continue
                }
                let shortCode = shortCodes[Int(truncatingIfNeeded: ~invertedBits &>> 56)]
                var length = Int(shortCode &>> 8)
                var symbol = UInt8(truncatingIfNeeded: shortCode)
                if length == 0 || length > availableBits {
                    // A code may have 30 bits, so load more input before a code is decoded or rejected.
                    if availableBits < Self.codeBitsMax, position < input.count { break }
                    // Remaining bits that are all ones are padding. Eight or more bits of padding are not valid.
                    if invertedBits == 0 { return availableBits < 8 ? count : nil }
                    guard length == 0, let longCode = decodeLongCode(UInt32(truncatingIfNeeded: ~invertedBits &>> 32))
                    else {
                        return nil
                    }
                    (symbol, length) = longCode
                    // If the remaining bits are only the beginning of a code, the string is not valid.
                    guard length <= availableBits else { return nil }
                }
                destination.storeBytes(of: symbol, toByteOffset: count, as: UInt8.self)
                count += 1
                invertedBits = invertedBits &<< UInt64(truncatingIfNeeded: length)
                availableBits -= length
            }
        }
    }

    /// Decodes the code at the start of `bits`, and returns its symbol and its length in bits; nil for the
    /// end-of-string symbol.
    private func decodeLongCode(_ bits: UInt32) -> (UInt8, Int)? {
        // Left-aligned in 32 bits, each code is larger than all shorter codes. So the code at the start of `bits` has
        // the greatest length whose first code is at most `bits`.
        var length = Int(Self.shortCodeBitsMax) + 1
        while length < Self.codeBitsMax, bits >= firstCodesByLength[length + 1] { length += 1 }
        guard bits < firstCodesByLength[Self.codeBitsMax + 1] else { return nil }
        let symbolIndex =
            firstSymbolIndicesByLength[length] + Int((bits - firstCodesByLength[length]) >> UInt32(32 - length))
        return (symbolsInCodeOrder[symbolIndex], length)
    }

    // MARK: - Encoding

    func encodedBytes(_ text: UnsafeRawBufferPointer) -> Int {
        (text.reduce(0) { $0 + Int(codeBitCounts[Int($1)]) } + 7) / 8
    }

    func encode(_ text: UnsafeRawBufferPointer) -> [UInt8] {
        var output: [UInt8] = []
        output.reserveCapacity(encodedBytes(text))
        var bits: UInt64 = 0
        var count = 0
        for byte in text {
            let length = Int(codeBitCounts[Int(byte)])
            bits = bits << UInt64(length) | UInt64(codesBySymbol[Int(byte)])
            count += length
            while count >= 8 {
                count -= 8
                output.append(UInt8(truncatingIfNeeded: bits >> UInt64(count)))
            }
        }
        if count > 0 {
            let padding = UInt64(8 - count)
            output.append(UInt8(truncatingIfNeeded: bits << padding | (1 << padding - 1)))
        }
        return output
    }
}

/// The length of each byte's code, in bits.
private let codeBitCounts: [UInt8] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28,
    28, 28, 28, 28, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 28,
    6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6,
    5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10,
    13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6,
    15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6, 6, 5,
    6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28,
    20, 22, 20, 20, 22, 22, 22, 23, 22, 23, 23, 23, 23, 23, 24, 23,
    24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24,
    22, 21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23,
    21, 21, 22, 21, 23, 22, 23, 23, 20, 22, 22, 22, 23, 22, 22, 23,
    26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25,
    19, 21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27,
    20, 24, 20, 21, 22, 21, 21, 23, 22, 22, 25, 25, 24, 24, 26, 23,
    26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
]
