"""The uncased WordPiece tokenizer of BERT-like sentence encoders: lower case, no accents, punctuation apart, longest piece first."""
import unicodedata


def load_vocabulary(text):
    return {line.rstrip("\n"): i for i, line in enumerate(text.splitlines())}


def words(sentence):
    plain = "".join(c for c in unicodedata.normalize("NFD", sentence.lower()) if unicodedata.category(c) != "Mn")
    word = ""
    for c in plain:
        punctuation = unicodedata.category(c).startswith("P") or (c.isascii() and not c.isalnum() and not c.isspace())
        if c.isspace() or punctuation:
            if word:
                yield word
            word = ""
            if punctuation:
                yield c
        else:
            word += c
    if word:
        yield word


def pieces(word, vocabulary):
    out, begin = [], 0
    while begin < len(word):
        for end in range(len(word), begin, -1):
            piece = ("##" if begin else "") + word[begin:end]
            if piece in vocabulary:
                out.append(vocabulary[piece])
                begin = end
                break
        else:
            return [vocabulary["[UNK]"]]
    return out


def encode(sentence, vocabulary, length):
    """Token ids padded to `length`, and how many of them are real."""
    ids = [i for word in words(sentence) for i in pieces(word, vocabulary)][:length - 2]
    ids = [vocabulary["[CLS]"]] + ids + [vocabulary["[SEP]"]]
    return ids + [vocabulary.get("[PAD]", 0)] * (length - len(ids)), len(ids)
